//! Training on one graph: all nodes are solved together, and some of them are learned from.
//! One forward solve serves both the evaluation and the step that follows, unless a normalisation tells them apart.

use super::judge::Judge;
use super::record::PartRecord;
use super::{Task, TrainError};
use crate::config::IgnnConfig;
use crate::models::{Ignn, LayerError, Mode, OnGraph, Pass};
use crate::nn::ridge::Ridge;
use crate::nn::{Backward, Operators};
use crate::solver::SolveInfo;

/// The graph with its passes.
pub(super) struct OneGraph<'g> {
    pub on: OnGraph<'g>,
    train: Pass,
    /// The parts that are evaluated, by name; none is empty.
    evaluated: Vec<(&'static str, Pass)>,
}

impl<'g> OneGraph<'g> {
    pub fn new(task: &Task, model: &Ignn, operators: &'g Operators<'g>) -> Result<Self, TrainError> {
        let on = OnGraph::new(model, operators, task.features()?, true);
        let pass = |nodes: &[u32]| on.pass(model, nodes.to_vec(), nodes.to_vec());
        let filled = task.parts().named().into_iter().filter(|(_, nodes)| !nodes.is_empty());
        let evaluated = filled.map(|(name, nodes)| (name, pass(nodes))).collect();
        Ok(Self { train: pass(&task.parts().train), evaluated, on })
    }

    /// Solves all layers; from zero where that is asked for.
    pub fn solve(
        &mut self,
        model: &mut Ignn,
        config: &IgnnConfig,
        mode: Mode,
    ) -> Result<Vec<SolveInfo>, LayerError> {
        if !config.solver.warm_start {
            self.on.reset();
        }
        self.on.forward(model, &config.forward(), mode)
    }

    /// Loss and scores of every part, without dropout.
    pub fn evaluate(&mut self, model: &Ignn, judge: &Judge<'_>) -> Vec<(&'static str, PartRecord)> {
        let on = &self.on;
        let part = |(name, pass): &mut (&'static str, Pass)| {
            on.read_out(model, pass, None);
            (*name, judge.judge(pass.logits.view(), pass.ids()))
        };
        self.evaluated.iter_mut().map(part).collect()
    }

    /// Adds the rows of the training nodes, without dropout.
    pub fn add_rows(&mut self, model: &Ignn, task: &Task, ridge: &mut Ridge) {
        self.on.read_out(model, &mut self.train, None);
        ridge.add(self.train.rows(), self.train.ids(), task.targets());
    }

    /// The training loss and the gradients of all parameters, or of the read-out's alone.
    pub fn differentiate(
        &mut self,
        model: &mut Ignn,
        judge: &Judge<'_>,
        epoch: u64,
        backward: Option<Backward>,
        config: &IgnnConfig,
    ) -> Result<(f64, Vec<SolveInfo>), LayerError> {
        self.on.read_out(model, &mut self.train, Some(epoch));
        let loss = judge.differentiate(&mut self.train);
        let Some(backward) = backward else {
            self.on.backward_head(model, &mut self.train);
            return Ok((loss, Vec::new()));
        };
        let solves = self.on.backward(model, &mut self.train, epoch, backward, &config.adjoint())?;
        Ok((loss, solves))
    }
}
