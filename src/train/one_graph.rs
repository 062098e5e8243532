//! Training on one graph: all nodes are solved together. One forward solve serves both the
//! evaluation and the step that follows, unless batch normalisation, dropout or hidden nodes make
//! them differ.
//!
//! A node is hidden by a row of zeros in the table of learned features while the step's equilibrium
//! is solved, and in the gradient. The values are restored before anything else reads them.

use super::evaluator::Evaluator;
use super::record::PartRecord;
use super::{Task, TrainError, hidden};
use crate::config::Config;
use crate::models::{LayerError, Mode, Network, OnGraph, Pass};
use crate::nn::ridge::Ridge;
use crate::nn::{Backward, Operators, clear_rows};
use crate::solver::SolveInfo;

/// The graph with its passes.
pub(super) struct OneGraph {
    pub on: OnGraph,
    train: Pass,
    /// The nodes that the current step hides; it learns from these instead of all training nodes.
    hidden: Option<Pass>,
    /// The parts that are evaluated, by name, without empty ones.
    evaluated: Vec<(&'static str, Pass)>,
    /// Whether no state that the last step saw passes a gradient on.
    pub has_faded: bool,
}

impl OneGraph {
    pub fn new(task: &Task, model: &Network, operators: &Operators) -> Result<Self, TrainError> {
        let on = OnGraph::new(model, operators, task.features()?, true);
        let pass = |nodes: &[u32]| on.pass(model, nodes.to_vec(), nodes.to_vec());
        let filled = task.parts().named().into_iter().filter(|(_, nodes)| !nodes.is_empty());
        let evaluated = filled.map(|(name, nodes)| (name, pass(nodes))).collect();
        let train = pass(&task.parts().train);
        Ok(Self { train, hidden: None, evaluated, on, has_faded: false })
    }

    /// Solves all layers, from zero if warm starts are off.
    pub fn solve(
        &mut self,
        model: &mut Network,
        config: &Config,
        mode: Mode,
    ) -> Result<Vec<SolveInfo>, LayerError> {
        if !config.solver.warm_start {
            self.on.reset();
        }
        let params = if mode == Mode::Evaluation { config.forward() } else { config.step() };
        self.on.forward(model, &params, mode)
    }

    /// Solves for the step of an epoch, with some training nodes hidden if the configuration asks
    /// for it.
    pub fn solve_for_step(
        &mut self,
        model: &mut Network,
        config: &Config,
        epoch: u64,
    ) -> Result<Vec<SolveInfo>, LayerError> {
        let Some(table) = model.table().filter(|_| config.train.hide > 0.0) else {
            return self.solve(model, config, Mode::Training(epoch));
        };
        let hidden = hidden::draw(self.train.ids(), config.train.hide, config.train.seed, epoch);
        let pass = self.on.pass(model, hidden.clone(), hidden);
        let kept = hidden::take_rows(&mut model.parameters[table].value, pass.own_rows());
        let solved = self.solve(model, config, Mode::Training(epoch));
        hidden::put_back(&mut model.parameters[table].value, pass.own_rows(), &kept);
        self.hidden = Some(pass);
        solved
    }

    /// Loss and scores of every part, without dropout.
    pub fn evaluate(
        &mut self,
        model: &Network,
        evaluator: &Evaluator,
    ) -> Vec<(&'static str, PartRecord)> {
        let on = &self.on;
        let part = |(name, pass): &mut (&'static str, Pass)| {
            on.read_out(model, pass, None);
            (*name, evaluator.evaluate(pass.logits.view(), pass.ids()))
        };
        self.evaluated.iter_mut().map(part).collect()
    }

    /// Adds the rows of the training nodes, without dropout.
    pub fn add_rows(&mut self, model: &Network, task: &Task, ridge: &mut Ridge) {
        self.on.read_out(model, &mut self.train, None);
        ridge.add(self.train.rows(), self.train.ids(), task.targets());
    }

    /// The training loss, and the gradients of all parameters or of the readout alone.
    pub fn differentiate(
        &mut self,
        model: &mut Network,
        evaluator: &Evaluator,
        epoch: u64,
        backward: Option<Backward>,
        config: &Config,
    ) -> Result<(f64, Vec<SolveInfo>), LayerError> {
        let mut hidden = self.hidden.take();
        let pass = hidden.as_mut().unwrap_or(&mut self.train);
        self.on.read_out(model, pass, Some(epoch));
        self.has_faded = pass.has_faded();
        let loss = evaluator.differentiate(pass);
        let Some(backward) = backward else {
            self.on.backward_head(model, pass);
            return Ok((loss, Vec::new()));
        };
        let solves = self.on.backward(model, pass, epoch, backward, &config.adjoint())?;
        if let (Some(pass), Some(table)) = (&mut hidden, model.table()) {
            if !model.parameters[table].is_fixed() {
                clear_rows(pass.own_rows(), model.parameters[table].gradient.view_mut());
            }
            // The next step hides other nodes.
            self.on.clear(pass);
        }
        Ok((loss, solves))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::Trainer;
    use super::super::trainer::GraphSet;
    use super::OneGraph;
    use crate::config::Config;
    use crate::dense::Matrix;
    use crate::graph::GraphBuilder;

    /// Parameters after some epochs; with `apart`, no matrices share memory.
    fn trained(sets: &[&str], apart: bool) -> Vec<Vec<u32>> {
        let node = |at: u32| (at.wrapping_mul(2_654_435_761) >> 7) % 40;
        let edges = (0..240).map(|at| (node(at), node(at + 1000)));
        let graph = GraphBuilder::new(40)
            .edges(edges.filter(|(from, to)| from != to))
            .features(3, (0..120).map(|at| (at * 5 % 7) as f32).collect())
            .classes(["one", "other"], (0..40).map(|node| Some(node % 2)))
            .split(0..10, 10..20, 20..40)
            .build()
            .unwrap();
        let sets: Vec<_> = sets.iter().map(ToString::to_string).collect();
        let config = Config::resolve(None, None, &sets).unwrap();
        let mut trainer = Trainer::new(&graph, config).unwrap();
        if apart {
            let GraphSet::One(one) = trainer.graphs else { panic!("one graph") };
            trainer.graphs = GraphSet::One(OneGraph { on: one.on.keep_inputs(), ..one });
        }
        trainer.run(&mut (), &AtomicBool::new(false), |_| Ok(())).unwrap();
        let bits = |value: &Matrix| value.view().padded().iter().map(|x| x.to_bits()).collect();
        trainer.network().parameters.iter().map(|parameter| bits(&parameter.value)).collect()
    }

    #[test]
    fn sharing_memory_changes_no_bit() {
        for sets in [
            &["model.state=5"][..],
            &["model.state=18", "solver.method=plain", "model.activation=tanh"],
            &["model.state=6,5,4", "model.skip=true"],
            &["model.state=6,5", "model.batch_norm=true", "solver.gradient=phantom"],
            &["model.state=5", "model.features=learned"],
            &["model.state=5", "model.features=learned", "model.input=own", "train.hide=0.3"],
            &[
                "model.state=5",
                "model.features=learned",
                "model.input=own",
                "model.batch_norm=true",
            ],
            &["model.state=5,4", "model.features=learned", "model.input=own"],
            &["model.state=5", "model.features=learned", "model.feature_dropout=0.3"],
        ] {
            let sets = [sets, &["train.epochs=4", "model.normalise_state=true"]].concat();
            let shared = trained(&sets, false);
            assert!(shared == trained(&sets, true), "{sets:?}");
        }
    }
}
