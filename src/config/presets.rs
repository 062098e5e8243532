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
features = "learned"
# Linear, at its bound from the start and fed by labels alone: what a label says spreads over the graph before anything is learned from noise.
activation = "identity"
kappa = 0.9
init = "identity"
init_input = 0.01
dropout = 0.0

[solver]
tolerance = 1e-3
adjoint_tolerance = 1e-3

[optim]
learning_rate = 0.03
# Far above the gradients of most rows: rows that hardly any label reaches hardly move.
epsilon = 1e-5
weight_decay = 0.0

[train]
epochs = 100
stop_after = 30
loss = "binary-cross-entropy"
class_weights = "balanced"
monitor = "top-k-micro-f1"
"#,
    },
    Preset {
        name: "graphs",
        doc: "Classes of whole graphs, small and many: three layers, their result summed over each graph.",
        text: r#"
[model]
state = [32, 32, 32]
features = "given"
kappa = 0.98
init = "scaled"
batch_norm = true
pooling = "sum"
dropout = 0.0
readout = "mlp"
hidden = [32]

[solver]
tolerance = 1e-4
adjoint_tolerance = 1e-3

[optim]
learning_rate = 0.01
schedule = "step"
step_epochs = 50
step_factor = 0.5

[train]
epochs = 150
batch = 32
"#,
    },
    Preset {
        name: "acm",
        doc: "Papers related by authors and by subjects: two relations, bags of words.",
        text: r#"
[model]
state = 64
# Paper-author and paper-subject, as in the paper: their sum is above 1, so the norms certify nothing, though a norm is found in which sweeps contract.
kappa = [0.55, 0.55]
activation = "identity"
dropout = 0.5

[solver]
tolerance = 1e-4
adjoint_tolerance = 1e-4

[optim]
learning_rate = 0.01
weight_decay = 5e-3

[train]
epochs = 100
stop_after = 40
"#,
    },
    Preset {
        name: "imdb",
        doc: "Films related by actors and by directors: two relations, bags of words.",
        text: r#"
[model]
state = 64
kappa = [0.5, 0.5]
# Chosen on the validation part: own features beside gathered ones, a state that spreads from the first epoch on, more decay than the paper's 0.001.
input = "both"
init = "identity"
dropout = 0.5

[solver]
tolerance = 1e-4
adjoint_tolerance = 1e-4

[optim]
learning_rate = 0.01
weight_decay = 0.02

[train]
epochs = 100
stop_after = 40
"#,
    },
    Preset {
        name: "dblp",
        doc: "Authors related by papers, conferences and terms: three relations, two of them dense.",
        text: r#"
[model]
state = 64
# Papers, conferences, terms.
kappa = [0.3, 0.5, 0.1]
dropout = 0.5

[solver]
tolerance = 1e-3
adjoint_tolerance = 1e-3

[optim]
learning_rate = 0.01
weight_decay = 1e-3

[train]
epochs = 100
stop_after = 40
"#,
    },
    Preset {
        name: "ppi",
        doc: "Many graphs, some of them only for evaluation; sets of labels, and labels that depend on wide neighbourhoods: a stack of five layers with skips. Made for plain adjacency: ingest with --normalise none.",
        text: r#"
[model]
state = [1024, 512, 512, 256, 121]
kappa = 0.98
# Sums over some thirty neighbours grow that much in every layer: without this the first loss is in the thousands.
init_input = 0.03
skip = true
between = "elu"
readout = "none"
dropout = 0.0

[solver]
tolerance = 1e-4
adjoint_tolerance = 1e-4

[optim]
learning_rate = 0.005

[train]
epochs = 200
batch = 1
loss = "binary-cross-entropy"
monitor = "micro-f1"
"#,
    },
    Preset {
        name: "fdgnn",
        doc: "A random equilibrium at its bound, and a read-out fitted to it in one go by ridge regression.",
        text: r#"
[model]
state = 256
init = "scaled"
dropout = 0.0

[solver]
tolerance = 1e-4

[train]
learn = "ridge"
"#,
    },
];

/// The preset with this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
