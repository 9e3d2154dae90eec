# evalspec with the extras that you name: docker build --build-arg EXTRAS=onnx,sklearn --tag evalspec .
# Run it on your folder: docker run --rm --volume "$PWD:/work" evalspec run gate/evalspec.yaml
FROM python:3.12-slim
ARG EXTRAS=onnx,sklearn
RUN useradd --create-home --uid 1000 evalspec
COPY pyproject.toml README.md LICENSE constraints.txt /opt/evalspec/
COPY evalspec /opt/evalspec/evalspec
RUN pip install --no-cache-dir --constraint /opt/evalspec/constraints.txt "/opt/evalspec[${EXTRAS}]"
USER evalspec
WORKDIR /work
ENTRYPOINT ["evalspec"]
CMD ["--help"]
