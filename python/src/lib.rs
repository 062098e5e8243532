//! The Python extension module `ignn._ignn`: the library's graphs, training, models and solves as
//! Python classes and functions. It converts and computes nothing; what users see (conversions of
//! their arrays, estimators, pages for notebooks) is in `package/ignn`.
//!
//! | file | what |
//! | --- | --- |
//! | `arrays` | memory of the library as numpy arrays, and numpy arrays as slices |
//! | `failure` | errors as Python exceptions |
//! | `values` | JSON values as Python objects |
//! | `job` | work on a thread of its own, while the caller listens to reports and signals |
//! | `graph` | `Graph`, from arrays, files and dataset directories |
//! | `model` | `Model` and `Predictions` |
//! | `training` | runs, with and without a directory |
//! | `solve` | the engine's solves, forward and adjoint |

mod arrays;
mod failure;
mod graph;
mod job;
mod model;
mod solve;
mod training;
mod values;

use pyo3::prelude::*;

#[pymodule]
mod _ignn {
    use super::{PyModule, PyResult};
    use ignn_ingest::source::edge_list;
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::failure::NotConverged;
    #[pymodule_export]
    use super::graph::{Graph, build, ingest_directory, ingest_edges, ingest_relations};
    #[pymodule_export]
    use super::job::{set_threads, threads, wait};
    #[pymodule_export]
    use super::model::{Model, Predictions};
    #[pymodule_export]
    use super::solve::Layer;
    #[pymodule_export]
    use super::training::{Run, check_settings, report, resume, train};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("SOURCE_NAMES", edge_list::SOURCE_NAMES)?;
        module.add("TARGET_NAMES", edge_list::TARGET_NAMES)?;
        module.add("WEIGHT_NAMES", edge_list::WEIGHT_NAMES)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
