//! The words that a configuration chooses from, each list a type.
//! They name things; what a choice does is for the layer, solver or optimiser that it selects.

use serde::{Deserialize, Serialize};

/// Declares a list of words: the enum, its spelling in files, and the list for messages and
/// documents.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$word_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All words.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// As it is written in a configuration.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    )+};
}

choices! {
    /// Models that can be trained.
    ModelKind {
        /// Equilibrium layers and a read-out.
        Ignn = "ignn",
        /// Graph convolutions (Kipf, Welling 2017).
        Gcn = "gcn",
        /// Features gathered several times, then one linear map (Wu et al. 2019).
        Sgc = "sgc",
        /// Linear maps of a node's own features: no edge is seen.
        Mlp = "mlp",
        /// Attention over edges (Velickovic et al. 2018).
        Gat = "gat",
        /// Deep convolutions with a share of their start (Chen et al. 2020).
        Gcnii = "gcnii",
        /// Stochastic steady-state embeddings (Dai et al. 2018).
        Sse = "sse",
        /// Linear maps of degrees around a node: for graphs without features.
        Structural = "structural",
        /// Labels spread over the edges; nothing is learned (Zhou et al. 2004).
        LabelPropagation = "label-propagation",
    }
    /// Activations; see [`crate::kernels::Activation`].
    ActivationName {
        /// z
        Identity = "identity",
        /// max(z, 0)
        Relu = "relu",
        /// z where positive, else slope times z
        LeakyRelu = "leaky-relu",
        /// tanh z
        Tanh = "tanh",
        /// 1 / (1 + exp(-z))
        Sigmoid = "sigmoid",
        /// z where positive, else exp(z) - 1
        Elu = "elu",
    }
    /// How features enter the equation.
    InputMap {
        /// Omega U A: the features of the nodes that a node gathers from.
        Gathered = "gathered",
        /// Omega U: a node's own features.
        Own = "own",
        /// Omega1 U A + Omega2 U.
        Both = "both",
    }
    /// First values of W.
    InitName {
        /// Uniform within 1 / sqrt(m), brought within the bound.
        Uniform = "uniform",
        /// The identity at the bound, kappa / rho: every column of the state travels as far as it
        /// may from the start.
        Identity = "identity",
        /// Uniform, scaled by one factor so that the norm of W is at the bound.
        Scaled = "scaled",
        /// The identity in banks of as many columns as there are classes, each bank after the first
        /// fed by the one before.
        Cascade = "cascade",
    }
    /// First values of learned features.
    FeatureStart {
        /// Uniform.
        Random = "random",
        /// The labels of the training nodes, zero elsewhere; the read-out starts as their reader.
        Labels = "labels",
    }
    /// From nodes to graphs.
    PoolingName {
        /// None where nodes have labels, the sum where graphs have.
        Auto = "auto",
        /// Nodes are what is predicted.
        None = "none",
        /// The sum of a graph's rows.
        Sum = "sum",
        /// Their mean.
        Mean = "mean",
        /// The largest of each column.
        Max = "max",
    }
    /// What learns.
    Learn {
        /// Everything.
        All = "all",
        /// The read-out, step by step.
        Readout = "readout",
        /// The read-out, in one go.
        Ridge = "ridge",
    }
    /// Where features come from.
    FeatureSource {
        /// The dataset's where it has any, learned ones otherwise.
        Auto = "auto",
        /// The dataset's.
        Given = "given",
        /// A table with a row a node, learned with the weights.
        Learned = "learned",
    }
    /// From state to scores.
    Readout {
        /// Theta X.
        Linear = "linear",
        /// Linear maps with relu between them.
        Mlp = "mlp",
        /// The last layer's result itself.
        None = "none",
    }
    /// What the residual of a solve is relative to; see [`crate::solver::Measure`].
    MeasureName {
        /// Each row where rows are normalised, the state elsewhere.
        Auto = "auto",
        /// The largest entry of the state.
        State = "state",
        /// The largest entry of each row.
        Row = "row",
    }
    /// How a solve finds its equilibrium; see [`crate::solver::Method`].
    SolveMethod {
        /// By the rate of the first sweeps.
        Auto = "auto",
        /// Sweeps alone.
        Plain = "plain",
        /// Anderson mixing from the start on.
        Anderson = "anderson",
        /// Sweeps that pass over rows whose inputs stay.
        Active = "active",
        /// Row after row where no cycle passes through more than one.
        Ordered = "ordered",
    }
    /// How states on the way to an equilibrium are stored; see [`crate::solver::Storage`].
    StorageName {
        /// 32 bits.
        F32 = "f32",
        /// 16 bits, while these are enough.
        F16 = "f16",
    }
    /// How the gradient passes through the equilibrium.
    GradientKind {
        /// The adjoint equation, solved.
        Exact = "exact",
        /// As if the equilibrium were one evaluation: G = D * R.
        JacobianFree = "jacobian-free",
        /// A few damped steps of the adjoint equation.
        Phantom = "phantom",
    }
    /// What a solve without convergence does to a run.
    OnFailure {
        /// It is counted and shown.
        Warn = "warn",
        /// The run ends with an error.
        Stop = "stop",
    }
    /// Optimisers.
    Method {
        /// Adam, bias-corrected.
        Adam = "adam",
        /// Gradient descent with momentum.
        Sgd = "sgd",
    }
    /// What a clipped norm is taken of.
    Clip {
        /// No clipping.
        None = "none",
        /// Of each tensor by itself.
        Tensor = "tensor",
        /// Of all gradients together.
        Global = "global",
    }
    /// How the learning rate changes.
    Schedule {
        /// It stays.
        Constant = "constant",
        /// Half a cosine from the learning rate to the floor at the last epoch.
        Cosine = "cosine",
        /// Multiplied by a factor every so many epochs.
        Step = "step",
    }
    /// Losses.
    LossName {
        /// By the dataset's labels: cross-entropy for single ones, binary for multi-label.
        Auto = "auto",
        /// Softmax cross-entropy.
        CrossEntropy = "cross-entropy",
        /// Binary cross-entropy, a term a label.
        BinaryCrossEntropy = "binary-cross-entropy",
    }
    /// Weights of the classes in the loss.
    ClassWeights {
        /// All 1.
        None = "none",
        /// Inverse to the class's share of the training nodes.
        Balanced = "balanced",
    }
    /// What the best epoch is chosen by.
    Monitor {
        /// Accuracy for single labels, Micro-F1 for multi-label.
        Auto = "auto",
        /// Share of the nodes whose class is right.
        Accuracy = "accuracy",
        /// F1 over all labels together.
        MicroF1 = "micro-f1",
        /// Mean F1 of the labels.
        MacroF1 = "macro-f1",
        /// Micro-F1 with as many labels predicted as a node has.
        TopKMicroF1 = "top-k-micro-f1",
        /// Macro-F1 with as many labels predicted as a node has.
        TopKMacroF1 = "top-k-macro-f1",
        /// The loss; the only one of which less is better.
        Loss = "loss",
    }
}
