//! The settings of a model: the section `[model]`.

use crate::kernels::Activation;
use crate::nn::{InputMap, PoolingChoice};
use crate::settings::{SettingError, settings, words};

/// Largest number of layers in a stack, and of relations in a dataset.
const LAYERS: usize = 64;

settings! {
    /// The model: layers, features and readout.
    pub struct ModelConfig {
        /// What to train.
        kind: ModelKind = ModelKind::Ignn;
        /// Width m of the state. Several widths make a stack of layers, each fed by the one before.
        state: Vec<usize> = vec![128], at_least(1.0).at_most(2048.0).items(LAYERS);
        /// Activation phi of the equation: one for all layers, or one per layer.
        activation: Vec<Activation> = vec![Activation::Relu], any().items(LAYERS);
        /// Slope of `leaky-relu` below zero.
        slope: f64 = 0.01, at_least(0.0).at_most(1.0);
        /// Whose features enter the equation of a node.
        input: InputMap = InputMap::Gathered;
        /// Adds a learned bias to the equation.
        bias: bool = false;
        /// Bound on lambda(|W|) lambda(A) that training keeps, which makes the equilibrium unique.
        /// Closer to 1, information travels farther and solves take more sweeps. One for all
        /// layers, or one per layer. With several relations: one that they share equally, or one
        /// per relation; a sum of 1 or more is not certified.
        kappa: Vec<f64> = vec![0.95], at_least(0.0).below(1.0).items(LAYERS);
        /// Initial values of W.
        init: Init = Init::Uniform;
        /// Scale of the initial Omega, or of learned features: uniform within this value divided by
        /// sqrt(m). Small values let learned features grow from the labels instead of from noise.
        init_input: f64 = 1.0, at_least(0.0).at_most(1000.0);
        /// Initial values of learned features.
        init_features: FeatureStart = FeatureStart::Random;
        /// Where features come from.
        features: FeatureSource = FeatureSource::Auto;
        /// Divides each row of the dataset's features by the sum of its absolute values, as is
        /// usual for bags of words.
        normalise_features: bool = false;
        /// Fraction of feature entries that each training step sets to zero before they enter an
        /// equilibrium. Skip connections see all entries. Each step then needs a forward solve of
        /// its own. Baselines use `dropout` instead, and ridge regression uses neither.
        feature_dropout: f64 = 0.0, at_least(0.0).below(1.0);
        /// The same for the equilibria after the first of a stack: fraction of the entries of the
        /// layer below. Used by `ignn` only.
        layer_dropout: f64 = 0.0, at_least(0.0).below(1.0);
        /// Adds a skip connection to each layer: a linear map of its input.
        skip: bool = false;
        /// Activation after the skip connection of each layer but the last. Unused without skip
        /// connections.
        between: Activation = Activation::Identity;
        /// Normalises each column of a layer's result over the nodes of a step.
        batch_norm: bool = false;
        /// How the nodes of a graph become one row, for datasets of labelled graphs.
        pooling: PoolingChoice = PoolingChoice::Auto;
        /// Scales each row of the state to length 1 before the readout.
        normalise_state: bool = false;
        /// Fraction of the state's entries that training sets to zero before the readout.
        dropout: f64 = 0.5, at_least(0.0).below(1.0);
        /// How the state becomes scores.
        readout: ReadoutKind = ReadoutKind::Linear;
        /// Widths of the hidden layers of an `mlp` readout.
        hidden: Vec<usize> = vec![64], at_least(1.0).at_most(65_536.0).items(8);
        /// Adds a bias to the readout.
        head_bias: bool = true;
        /// Depth T of a baseline: its layers, or how often rows are gathered. Unused by `ignn`,
        /// whose layers are the widths in `state`.
        depth: usize = 2, at_least(1.0).at_most(LAYERS as f64);
        /// Number of attention heads of `gat`: one for all layers, or one per layer. Heads share the
        /// width `state` equally. A last layer of logits averages as many heads as the list gives
        /// it, each as wide as the number of classes, and has one head without a list.
        heads: Vec<usize> = vec![8], at_least(1.0).at_most(256.0).items(LAYERS);
        /// Radius of the neighbourhood whose degrees `structural` uses.
        hops: usize = 3, at_least(0.0).at_most(16.0);
        /// Weight of the new value in each step of `sse`.
        sse_damping: f64 = 0.5, above(0.0).at_most(1.0);
        /// Weight of the initial state in each layer of `gcnii`.
        gcnii_alpha: f64 = 0.1, at_least(0.0).at_most(1.0);
        /// Weight of the learned map in layer l of `gcnii`: beta = ln(lambda / l + 1); the rest is
        /// the identity.
        gcnii_lambda: f64 = 0.5, at_least(0.0).at_most(100.0);
        /// Learns the weight of a node's own row in each layer of `gin`: 1 + epsilon. Otherwise
        /// epsilon is 0.
        gin_learn_epsilon: bool = false;
        /// Fraction of the edges that `gcn` and `sgc` leave out in each epoch of training
        /// (DropEdge).
        drop_edge: f64 = 0.0, at_least(0.0).below(1.0);
    }
}

words! {
    /// Models.
    pub enum ModelKind {
        /// Implicit graph neural network: one equilibrium layer per width in `state`. Uses `state`,
        /// `activation`, `input`, `bias`, `kappa`, `init`, `feature_dropout`, `layer_dropout` and
        /// `[solver]`. Ends in a readout.
        Ignn = "ignn",
        /// Graph convolutions (Kipf, Welling 2017): `depth` layers A^T x Omega^T + bias. Uses
        /// `depth`, `state`, `activation` and `drop_edge`.
        Gcn = "gcn",
        /// Simple graph convolution (Wu et al. 2019): x Omega^T gathered `depth` times. Uses
        /// `depth` and `drop_edge`.
        Sgc = "sgc",
        /// Perceptron on the features of each node: `depth` linear maps, no edges. Uses `depth`,
        /// `state` and `activation`.
        Mlp = "mlp",
        /// Graph attention (Velickovic et al. 2018): `depth` layers over incoming edges, whose
        /// weights are ignored. Uses `depth`, `heads`, `state` and `activation`. `dropout` also
        /// drops attention weights.
        Gat = "gat",
        /// Deep convolutions that keep a share of their initial state (Chen et al. 2020). Uses
        /// `depth`, `state`, `activation`, `gcnii_alpha` and `gcnii_lambda`. Ends in a readout.
        Gcnii = "gcnii",
        /// Graph isomorphism network (Xu et al. 2019): `depth` layers, each a perceptron of two maps
        /// on the sum of a node's own row and its neighbours'. Made for the plain adjacency. Uses
        /// `depth`, `state`, `activation` and `gin_learn_epsilon`. Ends in a readout.
        Gin = "gin",
        /// Stochastic steady-state embeddings (Dai et al. 2018): `depth` damped steps per epoch
        /// towards a steady state, starting from the previous epoch; predictions iterate until it
        /// converges. Uses `depth`, `state`, `activation`, `sse_damping` and, of `[solver]`,
        /// `tolerance`, `max_sweeps` and `warm_start`. Applies `dropout` before the readout only.
        /// Ends in a readout.
        Sse = "sse",
        /// Perceptron on the degrees up to `hops` steps around each node, for graphs without
        /// features. Uses `depth`, `hops`, `state` and `activation`.
        Structural = "structural",
        /// Label propagation (Zhou et al. 2004): X = kappa / rho A^T X + labels of the training
        /// nodes. Nothing is learned. Uses `kappa` and `[solver]`.
        LabelPropagation = "label-propagation",
    }

    /// Initial values of W.
    pub enum Init {
        /// Uniform within 1 / sqrt(m), as in the published code, projected to the bound `kappa`.
        Uniform = "uniform",
        /// The identity times kappa / rho: information travels as far as `kappa` allows from the
        /// first epoch on.
        Identity = "identity",
        /// Uniform, scaled so that the norm of W reaches the bound `kappa`.
        Scaled = "scaled",
        /// The identity in banks of one column per class. Each bank after the first takes a tenth
        /// of its input from the bank before. For labels as features: later banks reach farther
        /// and are smoother.
        Cascade = "cascade",
    }

    /// Initial values of learned features.
    pub enum FeatureStart {
        /// Uniform.
        Random = "random",
        /// The labels of the training nodes, one column per class, zero elsewhere. The readout
        /// starts by reading those columns, so that the untrained model is label propagation.
        /// Needs one layer at least as wide as the number of classes, an `init` of `identity` or
        /// `cascade`, and a linear readout.
        Labels = "labels",
    }

    /// Where features come from.
    pub enum FeatureSource {
        /// The dataset if it has features, `learned` otherwise.
        Auto = "auto",
        /// The dataset.
        Given = "given",
        /// A table with one row per node, learned with the weights.
        Learned = "learned",
    }

    /// How the state becomes scores.
    pub enum ReadoutKind {
        /// One linear map.
        Linear = "linear",
        /// Linear maps with relu between them; `hidden` gives the widths.
        Mlp = "mlp",
        /// No map: the last layer is as wide as the number of classes.
        None = "none",
    }
}

impl ModelConfig {
    /// Gives `leaky-relu` the slope of `model.slope`, which its word does not carry.
    pub(super) fn set_slope(&mut self) {
        for activation in self.activation.iter_mut().chain([&mut self.between]) {
            *activation = activation.with_slope(self.slope);
        }
    }

    /// The bound that training keeps, of the layer with the largest one: the sum over relations.
    pub fn largest_kappa(&self, relations: usize) -> f64 {
        match relations {
            0 | 1 => self.kappa.iter().copied().fold(0.0, f64::max),
            _ => self.kappa.iter().sum(),
        }
    }

    /// Refuses another slope, which a file could not hold.
    pub(super) fn check_slope(&self) -> Result<(), SettingError> {
        for activation in self.activation.iter().chain([&self.between]) {
            if let Activation::LeakyRelu(found) = *activation
                && *activation != activation.with_slope(self.slope)
            {
                let expected = format!("the slope of leaky-relu, {found}");
                return Err(SettingError {
                    key: "slope".into(),
                    found: self.slope.to_string(),
                    expected,
                });
            }
        }
        Ok(())
    }
}
