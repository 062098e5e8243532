//! Solves that did not converge: a note to the observer, or an error, as the configuration asks.
//! The trainer counts them.

use super::TrainError;
use super::record::{EpochRecord, LayerRecord, Observer};
use crate::config::Config;
use crate::solver::{GradientKind, OnFailure, SolveInfo};

/// Reports the solves of an epoch that did not converge.
pub(super) fn report(
    record: &EpochRecord,
    config: &Config,
    observer: &mut dyn Observer,
) -> Result<(), TrainError> {
    let only =
        record.forward.map(|forward| LayerRecord { solves: 1, forward, adjoint: record.adjoint });
    let layers = if record.layers.is_empty() { only.as_slice() } else { &record.layers };
    let is_exact = config.solver.gradient == GradientKind::Exact;
    for (at, layer) in layers.iter().enumerate() {
        let adjoint = layer.adjoint.filter(|_| is_exact);
        for (direction, solve) in [("forward", Some(layer.forward)), ("adjoint", adjoint)] {
            // A truncated solve makes a set number of sweeps and cannot fail.
            let failed = solve.filter(|solve| !solve.is_done());
            let Some(SolveInfo { sweeps, relative_residual, .. }) = failed else { continue };
            let (epoch, residual) = (record.epoch, relative_residual);
            let layer = if layers.len() > 1 { format!(", layer {at}") } else { String::new() };
            if config.solver.on_failure == OnFailure::Stop {
                return Err(TrainError::NotConverged { epoch, layer, direction, residual, sweeps });
            }
            observer.note(&format!(
                "epoch {epoch}{layer}: the {direction} solve did not converge: \
                 residual {residual:.1e} after sweep {sweeps}"
            ))?;
        }
    }
    Ok(())
}
