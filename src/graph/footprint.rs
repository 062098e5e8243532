//! An estimate of the memory that training takes, by a formula, before anything is allocated. It
//! counts the large arrays.
//!
//! With n nodes, states of width m, p features, c classes and r relations, in f32:
//!
//! | part | floats |
//! | --- | --- |
//! | graph | the mapped files of all relations, both directions where both are stored |
//! | features U | n p if dense; if sparse a column and a value per entry, an offset per row |
//! | states | 2 n m: an equilibrium and the one before it |
//! | input term B | n m per relation |
//! | adjoint | n m |
//! | parameters | 4 (r (m m + m p) + m c): each with its gradient and Adam's two moments |
//!
//! Without features they are learned: a table of n m parameters replaces m p.

use ignn_format::Manifest;
use ignn_format::features::FeatureKind;
use serde::Serialize;

/// Widths for which `ignn inspect` prints the estimate.
pub const WIDTHS: [u64; 2] = [64, 128];

const FLOAT: u64 = size_of::<f32>() as u64;
/// A parameter, its gradient and two moments.
const ADAM_COPIES: u64 = 4;

/// Bytes by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Width of the state.
    pub width: u64,
    /// Adjacency of all relations.
    pub graph: u64,
    /// Features in memory.
    pub features: u64,
    /// Two states.
    pub states: u64,
    /// The input term.
    pub input: u64,
    /// The adjoint state.
    pub adjoint: u64,
    /// Parameters with gradients and moments.
    pub parameters: u64,
    /// The sum of all parts.
    pub total: u64,
}

impl Footprint {
    /// The estimate for a state of `width`.
    pub fn of(manifest: &Manifest, width: u64) -> Self {
        let nodes = manifest.nodes;
        let relations = manifest.relations.len() as u64;
        let is_graph = |path: &&String| path.starts_with("relations/");
        let graph = manifest.files.keys().filter(is_graph).map(|path| manifest.files[path].bytes);
        let graph = graph.fold(0, u64::saturating_add);
        let features = manifest.features.as_ref().map_or(0, |features| match features.kind {
            FeatureKind::Dense => product(&[nodes, features.columns, FLOAT]),
            FeatureKind::Sparse => product(&[features.nonzeros.unwrap_or(0), 2, FLOAT])
                .saturating_add(product(&[nodes.saturating_add(1), size_of::<u64>() as u64])),
        });
        let state = product(&[nodes, width, FLOAT]);
        let input_weights =
            manifest.features.as_ref().map_or(product(&[nodes, width]), |features| {
                product(&[relations, width, features.columns])
            });
        let classes = manifest.labels.as_ref().map_or(0, |labels| labels.classes);
        let classes = manifest
            .graphs
            .as_ref()
            .map_or(classes, |graphs| classes.max(graphs.classes.len() as u64));
        let weights =
            [product(&[relations, width, width]), input_weights, product(&[width, classes])];
        let weights = weights.into_iter().fold(0, u64::saturating_add);
        let mut footprint = Self {
            width,
            graph,
            features,
            states: product(&[2, state]),
            input: product(&[relations, state]),
            adjoint: state,
            parameters: product(&[weights, ADAM_COPIES, FLOAT]),
            total: 0,
        };
        footprint.total = footprint.parts().iter().fold(0, |sum, part| sum.saturating_add(part.1));
        footprint
    }

    /// All parts with their names.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("graph", self.graph),
            ("features", self.features),
            ("states", self.states),
            ("input term", self.input),
            ("adjoint", self.adjoint),
            ("parameters", self.parameters),
        ]
    }
}

/// A product that saturates: a damaged manifest must not overflow.
fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(features: serde_json::Value) -> Manifest {
        let mut value = json!({
            "format": "ignn-dataset", "version": 1, "nodes": 1000, "order": "none",
            "made_by": {"program": "ignn", "command": "test", "options": {}},
            "relations": [{"name": "edges", "symmetric": true, "weighted": false,
                           "normalisation": "renorm", "scale": "both", "nonzeros": 5000,
                           "diagonal": 1000}],
            "ids": {"kind": "integer"}, "labels": {"kind": "single", "classes": 7, "labelled": 10},
            "files": {"relations/edges/in.offsets.u64": {"bytes": 8072, "xxh3": ""},
                      "labels.parquet": {"bytes": 99, "xxh3": ""}},
        });
        if !features.is_null() {
            value["features"] = features;
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn follows_the_formula() {
        let dense = json!({"kind": "dense", "columns": 50, "rows_per_shard": 1000, "shards": 1});
        let footprint = Footprint::of(&manifest(dense), 64);
        assert_eq!(
            (footprint.graph, footprint.features, footprint.states),
            (8072, 200_000, 512_000)
        );
        assert_eq!((footprint.input, footprint.adjoint), (256_000, 256_000));
        assert_eq!(footprint.parameters, 4 * 4 * (64 * 64 + 64 * 50 + 64 * 7));
        assert_eq!(footprint.total, 8072 + 200_000 + 4 * 256_000 + footprint.parameters);
    }

    #[test]
    fn learned_features_are_parameters() {
        let footprint = Footprint::of(&manifest(serde_json::Value::Null), 128);
        assert_eq!(footprint.features, 0);
        assert_eq!(footprint.parameters, 4 * 4 * (128 * 128 + 1000 * 128 + 128 * 7));
    }

    #[test]
    fn a_damaged_manifest_does_not_overflow() {
        let dense = json!({"kind": "dense", "columns": u64::MAX, "rows_per_shard": 1, "shards": 1});
        assert_eq!(Footprint::of(&manifest(dense), 64).total, u64::MAX);
    }
}
