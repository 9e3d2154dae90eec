"""Errors of the library, as far as they are told apart."""


class BaseError(Exception):
    pass


class GenericError(BaseError):
    pass


class PreconditionError(BaseError):
    pass


class PermissionDeniedError(BaseError):
    pass


class UnauthenticatedError(BaseError):
    pass
