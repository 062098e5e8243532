//! Collects the solves of an epoch, by step and layer, and merges them for its record.

use super::record::LayerRecord;
use crate::solver::SolveInfo;

/// The solves of an epoch.
#[derive(Default)]
pub(super) struct Solves {
    forward: Vec<Vec<SolveInfo>>,
    adjoint: Vec<Vec<SolveInfo>>,
    /// Solves of evaluations that no step followed.
    pub evaluation: Vec<Vec<SolveInfo>>,
    /// Nodes and edges times sweeps.
    nodes: f64,
    edges: f64,
}

impl Solves {
    /// Adds the forward solves of a step, one per layer, with the size of its graph.
    pub fn step(&mut self, solves: Vec<SolveInfo>, nodes: usize, edges: usize) {
        self.count(&solves, nodes, edges);
        self.forward.push(solves);
    }

    /// Adds the adjoint solves of a step; none where only the readout learns.
    pub fn step_back(&mut self, solves: Vec<SolveInfo>, nodes: usize, edges: usize) {
        self.count(&solves, nodes, edges);
        self.adjoint.push(solves);
    }

    fn count(&mut self, solves: &[SolveInfo], nodes: usize, edges: usize) {
        let sweeps: usize = solves.iter().map(|solve| solve.sweeps).sum();
        self.nodes += (nodes * sweeps) as f64;
        self.edges += (edges * sweeps) as f64;
    }

    /// The forward solves of the steps, or of the evaluation where there was no step.
    fn recorded(&self) -> &[Vec<SolveInfo>] {
        if self.forward.is_empty() { &self.evaluation } else { &self.forward }
    }

    /// All forward solves, merged; `None` where the model has no equilibrium.
    pub fn forward(&self) -> Option<SolveInfo> {
        together(self.recorded())
    }

    /// All adjoint solves, merged.
    pub fn adjoint(&self) -> Option<SolveInfo> {
        together(&self.adjoint)
    }

    /// Number of solves that did not converge; adjoint ones count where the gradient is exact.
    pub fn failures(&self, is_exact: bool) -> u64 {
        let adjoint = self.adjoint.iter().filter(|_| is_exact);
        let all = self.forward.iter().chain(&self.evaluation).chain(adjoint).flatten();
        // A truncated solve makes a set number of sweeps and cannot fail.
        all.filter(|solve| !solve.is_done()).count() as u64
    }

    /// One record per layer, where there are several layers or steps.
    pub fn by_layer(&self) -> Vec<LayerRecord> {
        let recorded = self.recorded();
        let layers = recorded.first().map_or(0, Vec::len);
        if layers * recorded.len() < 2 {
            return Vec::new();
        }
        let of = |side: &[Vec<SolveInfo>], layer: usize| {
            let all: Vec<SolveInfo> =
                side.iter().filter_map(|step| step.get(layer)).copied().collect();
            SolveInfo::together(&all)
        };
        let record = |layer| LayerRecord {
            solves: recorded.len(),
            forward: of(recorded, layer).expect("one forward solve per layer"),
            adjoint: of(&self.adjoint, layer),
        };
        (0..layers).map(record).collect()
    }

    /// Nodes and edges times sweeps, per second of the steps' solves.
    pub fn rates(&self) -> (f64, f64) {
        let all = self.forward.iter().chain(&self.adjoint).flatten();
        let seconds = all.map(|solve| solve.seconds).sum::<f64>().max(1e-9);
        (self.nodes / seconds, self.edges / seconds)
    }
}

fn together(solves: &[Vec<SolveInfo>]) -> Option<SolveInfo> {
    let all: Vec<SolveInfo> = solves.iter().flatten().copied().collect();
    SolveInfo::together(&all)
}
