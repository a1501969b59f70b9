//! Counts over tokenised texts, for ragweir's metrics. Everything that leaves is an integer, a text or a tuple of them.

use pyo3::prelude::*;

#[pymodule]
mod ragweir_kernel {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
