//! Configurations that come with the program, written as a user would write them.
//! They hold what differs from the defaults; how layers are put on top of each other is for the module above.

/// A named configuration.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What `--preset` takes.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub doc: &'static str,
    /// TOML.
    pub text: &'static str,
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "chains",
        doc: "Directed chains whose class is told at their first node only: how far information travels.",
        text: r#"
[model]
state = 16
kappa = 0.9
init = "identity"
normalise_state = true
dropout = 0.5

[optim]
learning_rate = 0.01
weight_decay = 5e-4
clip = "tensor"
clip_norm = 0.5

[train]
epochs = 200
stop_after = 100
"#,
    },
    Preset {
        name: "cora",
        doc: "A citation network with bags of words, few labels and the Planetoid split.",
        text: r#"
[model]
state = 64
features = "given"
kappa = 0.9
init = "identity"
dropout = 0.5

[solver]
# The state settles long before the last digits do, and few labels do not tell them apart.
tolerance = 1e-4
adjoint_tolerance = 1e-4

[optim]
learning_rate = 0.01
weight_decay = 5e-4

[train]
epochs = 300
stop_after = 100
"#,
    },
    Preset {
        name: "amazon",
        doc: "Communities of a large graph without features: multi-label, a learned row a node.",
        text: r#"
[model]
state = 128
# The table of learned features starts as the labels of the training nodes, so that epoch 0 is label propagation.
features = "learned"
init_features = "labels"
input = "own"
# Linear: what a label says spreads as far as kappa lets it; the second bank of columns is smoother.
activation = "identity"
kappa = 0.95
init = "cascade"
normalise_state = true
dropout = 0.0

[solver]
# By row, far nodes would need many more sweeps for digits that do not change what they are told.
measure = "state"
tolerance = 1e-3
adjoint_tolerance = 1e-3

[optim]
learning_rate = 0.05
weight_decay = 0.0
# A row of W holds at most kappa in all: a rate that suits the read-out would overturn it in a step.
layer_factor = 0.02
# Rows of their own would learn by heart what the few labels near them say.
table_factor = 0.0

[train]
epochs = 100
stop_after = 30
evaluate_every = 5
# A training node must be told by others, as test nodes are.
hide = 0.25
loss = "binary-cross-entropy"
monitor = "top-k-micro-f1"
"#,
    },
];

/// The preset with this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
