//! Initial values from labels: the untrained model is label propagation. The features of a training
//! node are its labels, one column per class, and the readout reads every class from its own
//! columns. Training continues from there.

use super::{Task, TrainError};
use crate::config::{Config, FeatureStart, Init, ReadoutKind};
use crate::models::Network;

/// The readout's weight of a class's own columns. On rows of length 1, with the bias, a node that
/// sees one class only starts at about even odds.
const GAIN: f32 = 6.0;

/// Gives a model these values if the configuration asks for them.
pub(super) fn apply(task: &Task, config: &Config, model: &mut Network) -> Result<(), TrainError> {
    if config.model.init_features != FeatureStart::Labels {
        return Ok(());
    }
    let table = check(task, config, model)?;
    let classes = task.labels().classes().len();
    let features = &mut model.parameters[table].value;
    features.view_mut().padded_mut().fill(0.0);
    let labels = task.put_labels(features);
    let head = model.head();
    let theta = &mut model.parameters[head].value;
    // Complete groups of columns only: a class with more columns than others would always win.
    let columns = theta.cols() / classes * classes;
    for class in 0..classes {
        let row = theta.row_mut(class);
        row.fill(0.0);
        (class..columns).step_by(classes).for_each(|column| row[column] = GAIN);
    }
    if let Some(bias) = model.parameters.get_mut(head + 1) {
        // Mean log odds of a class.
        let share = labels as f64 / (task.parts().train.len() * classes) as f64;
        bias.value
            .row_mut(0)
            .fill((share / (1.0 - share).max(f64::MIN_POSITIVE)).ln().clamp(-20.0, 0.0) as f32);
    }
    Ok(())
}

/// Refuses models that cannot start from labels; returns the position of the feature table.
fn check(task: &Task, config: &Config, model: &Network) -> Result<usize, TrainError> {
    let classes = task.labels().classes().len();
    let refused =
        |what: &str, found: String, hint| TrainError::LabelStart { what: what.into(), found, hint };
    let table = model.table().ok_or_else(|| {
        let found = "features of the dataset".into();
        refused(
            "learned features",
            found,
            "use model.features=learned or model.init_features=random",
        )
    })?;
    if !matches!(config.model.init, Init::Identity | Init::Cascade) {
        let found = config.model.init.to_string();
        return Err(refused(
            "a W that keeps columns apart",
            found,
            "use model.init=cascade or model.init=identity",
        ));
    }
    if config.model.readout != ReadoutKind::Linear {
        let found = config.model.readout.to_string();
        return Err(refused("a linear readout", found, "use model.readout=linear"));
    }
    if config.model.state.len() != 1 {
        let found = config.model.state.len().to_string();
        return Err(refused("one layer", found, "use one width in model.state"));
    }
    if config.model.state[0] < classes {
        let what = format!("one column per class, {classes}");
        return Err(refused(&what, config.model.state[0].to_string(), "use a wider model.state"));
    }
    Ok(table)
}
