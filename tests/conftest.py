"""x64 on for every test, and strict promotion: silent mixing of precisions is how accuracy is lost."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
