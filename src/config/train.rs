//! The settings of training: the section `[train]`.

use crate::metrics::Monitor;
use crate::nn::{ClassWeights, LossChoice};
use crate::settings::{settings, words};

settings! {
    /// How long to train, on which part of the dataset, and how to choose the best epoch.
    pub struct TrainConfig {
        /// Largest number of epochs. Epoch e is the model after e steps, epoch 0 the initial
        /// model; with 0 epochs, the initial model is written.
        epochs: u64 = 500, at_least(0.0).at_most(1e7);
        /// Seed of initial weights and dropout. The same seed gives the same bits on any number of
        /// threads.
        seed: u64 = 0, at_least(0.0);
        /// What is learned from the labels.
        task: TaskChoice = TaskChoice::Auto;
        /// The loss.
        loss: LossChoice = LossChoice::Auto;
        /// How much the nodes of each class count in the loss.
        class_weights: ClassWeights = ClassWeights::None;
        /// Which parameters are learned, and how.
        learn: Learn = Learn::All;
        /// Penalty of the ridge regression, relative to the mean squared error of the training
        /// items. 0 chooses it by generalised cross-validation.
        ridge: f64 = 0.0, at_least(0.0);
        /// Fraction of the training nodes, drawn anew in each step, whose learned features are set
        /// to zero. The loss then counts only these nodes, so that a node learns from others and
        /// not from itself. 0 hides none and counts all training nodes.
        hide: f64 = 0.0, at_least(0.0).below(1.0);
        /// Number of graphs per step, for datasets of many graphs. 0 takes all graphs at once.
        batch: u64 = 1, at_least(0.0);
        /// Fraction of the nodes, drawn anew in each step, that are left out of the graphs with all
        /// of their edges, for datasets of many graphs: training then sees many parts of each graph.
        /// Renormalised relations are renormalised again. Evaluations see all nodes.
        drop_nodes: f64 = 0.0, at_least(0.0).below(1.0);
        /// Split of the dataset to train on.
        split: String = "default".into();
        /// Part of the split to learn from. `training` is found too.
        train_part: String = "train".into();
        /// Part that chooses the best epoch. `valid`, `validation` and `dev` are found too.
        validation_part: String = "val".into();
        /// Part that is only reported. `testing` is found too.
        test_part: String = "test".into();
        /// Number of epochs from one evaluation to the next.
        evaluate_every: u64 = 1, at_least(1.0);
        /// Early stopping: training ends after this many epochs without a better validation score.
        /// 0 turns it off.
        stop_after: u64 = 0, at_least(0.0);
        /// What happens if training collapses: if two evaluated epochs in a row lose more than
        /// half of what the loss of the training part had gained since the first epoch.
        on_collapse: OnCollapse = OnCollapse::Warn;
        /// Multiplies the learning rate each time `on_collapse = "restore"` restores the best
        /// model.
        collapse_factor: f64 = 0.3, above(0.0).at_most(1.0);
        /// Validation score that chooses the best epoch. Of epochs with the same score the one with
        /// the smaller validation loss is chosen, and of those the earliest.
        monitor: Monitor = Monitor::Auto;
        /// Number of epochs between checkpoints. 0 writes none by epochs.
        checkpoint_epochs: u64 = 50, at_least(0.0);
        /// Minutes between checkpoints. 0 writes none by time.
        checkpoint_minutes: f64 = 10.0, at_least(0.0);
    }
}

words! {
    /// What is learned from the labels.
    pub enum TaskChoice {
        /// Regression where the labels of the dataset are numbers, classification otherwise.
        Auto = "auto",
        /// The class, or the classes, of each item.
        Classification = "classification",
        /// The number of each item. Classes whose names are all numbers, such as the years of a
        /// column `--label year`, are read as numbers.
        Regression = "regression",
    }

    /// What happens if training collapses.
    pub enum OnCollapse {
        /// A note; training continues as it is.
        Warn = "warn",
        /// Training continues from the best model with a new optimiser and the learning rate times
        /// `collapse_factor`. Also if a gradient or state is not finite. Needs a validation part.
        Restore = "restore",
        /// Training ends; the best model is kept.
        Stop = "stop",
    }

    /// Which parameters are learned, and how.
    pub enum Learn {
        /// All parameters, by gradient steps.
        All = "all",
        /// The readout, by gradient steps. All else keeps its initial values.
        Readout = "readout",
        /// The readout, by one ridge regression. All else keeps its initial values.
        Ridge = "ridge",
    }
}
