"""`solve localization`: ranges measured by sensors."""
