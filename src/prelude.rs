//! The types of the common path, to import at once: a graph, a configuration, a trainer, a model,
//! its predictions.
//!
//! ```
//! use ignn::prelude::*;
//!
//! let graph = GraphBuilder::new(4)
//!     .edges([(0, 1), (2, 3)])
//!     .classes(["left", "right"], [Some(0), Some(0), Some(1), Some(1)])
//!     .split([0, 2], [], [1, 3])
//!     .build()?;
//! let mut config = Config::default();
//! (config.model.state, config.train.epochs) = (vec![4], 50);
//! let model: Model = Trainer::new(&graph, config)?.fit()?.model;
//! let predictions = model.predict(&graph)?;
//! assert_eq!([1, 3].map(|node| predictions.class_name(node)), ["left", "right"]);
//! # Ok::<(), ignn::Error>(())
//! ```

pub use crate::config::Config;
pub use crate::dense::Matrix;
pub use crate::graph::{
    Edges, Graph, GraphBuilder, IdRef, Ids, LabelKind, Labels, Normalisation, Relation,
};
pub use crate::metrics::Metric;
pub use crate::models::Model;
pub use crate::predict::{Embeddings, Evaluation, Predictions};
pub use crate::solver::{SolveInfo, SolveParams};
pub use crate::train::{Ended, EpochRecord, Fit, Observer, Trainer};
