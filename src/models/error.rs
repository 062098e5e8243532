//! Errors of a configuration that describes no valid model.

/// Settings that contradict each other, or do not fit the data.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The dataset has no features.
    #[error(
        "model.features: the dataset has no features (found none, expected some for \"given\"): use \
         model.features=learned, or make the dataset with --features"
    )]
    NoFeatures,
    /// Learned features with two input maps.
    #[error(
        "model.input: learned features have one map (found \"both\", expected \"gathered\" or \"own\")"
    )]
    LearnedTwice,
    /// Learned features with a skip connection.
    #[error("model.skip: learned features have no skip (found true, expected false)")]
    LearnedSkip,
    /// Neither one activation nor one per layer.
    #[error(
        "model.activation: one for all layers or one per layer (found {found} for {layers} layers)"
    )]
    Activations {
        /// Values found.
        found: usize,
        /// Number of layers.
        layers: usize,
    },
    /// Neither one width nor one per layer of a baseline.
    #[error(
        "model.state: one width for all layers{} (found {found}, expected {})",
        match *expected {
            1 => "",
            _ if expected == depth => " or one per layer",
            _ => " or one per layer below the logits",
        },
        if *expected == 1 { "1".to_string() } else { format!("1 or {expected} for model.depth={depth}") }
    )]
    Widths {
        /// Values found.
        found: usize,
        /// Values expected.
        expected: usize,
        /// Number of layers.
        depth: usize,
    },
    /// A width that is not a multiple of the heads.
    #[error(
        "model.heads: heads share the width of a layer in equal parts (found {heads} heads for \
         model.state={width}, expected a divisor)"
    )]
    Heads {
        /// The width.
        width: usize,
        /// The heads.
        heads: usize,
    },
    /// Neither one number of heads nor one per layer.
    #[error("model.heads: one for all layers or one per layer (found {found} for {layers} layers)")]
    LayerHeads {
        /// Values found.
        found: usize,
        /// Number of layers.
        layers: usize,
    },
    /// Neither one kappa nor one per layer.
    #[error("model.kappa: one for all layers or one per layer (found {found} for {layers} layers)")]
    LayerKappas {
        /// Values found.
        found: usize,
        /// Number of layers.
        layers: usize,
    },
    /// Neither one kappa nor one per relation.
    #[error(
        "model.kappa: one for all relations or one per relation (found {found}, expected 1 or {} for \
         {})",
        .relations.len(),
        .relations.join(", ")
    )]
    RelationKappas {
        /// Values found.
        found: usize,
        /// Names of the relations.
        relations: Vec<String>,
    },
    /// No readout, and a last layer that is not as wide as the number of classes.
    #[error(
        "model.readout: without a readout the last layer is as wide as there are classes (found \
         model.state ending in {found}, expected {expected})"
    )]
    LastWidth {
        /// Its width.
        found: usize,
        /// Number of classes.
        expected: usize,
    },
}
