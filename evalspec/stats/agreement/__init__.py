"""Agreement of raters beyond chance."""
