//! The solves of an epoch, step by step and layer by layer, and what they come to.
//! It adds up; nothing is solved here.

use super::record::LayerRecord;
use crate::solver::SolveInfo;

/// The solves of an epoch.
#[derive(Default)]
pub(super) struct Solves {
    forward: Vec<Vec<SolveInfo>>,
    adjoint: Vec<Vec<SolveInfo>>,
    /// Those that no step followed.
    pub evaluation: Vec<Vec<SolveInfo>>,
    /// Rows and entries times sweeps.
    nodes: f64,
    edges: f64,
}

impl Solves {
    /// The forward solves of a step, layer by layer, over so many nodes and edges.
    pub fn step(&mut self, solves: Vec<SolveInfo>, nodes: usize, edges: usize) {
        self.count(&solves, nodes, edges);
        self.forward.push(solves);
    }

    /// Its adjoint solves; none where only the read-out learns.
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
    fn told(&self) -> &[Vec<SolveInfo>] {
        if self.forward.is_empty() { &self.evaluation } else { &self.forward }
    }

    /// All forward solves as one; none where the model has no equilibrium.
    pub fn forward(&self) -> Option<SolveInfo> {
        together(self.told())
    }

    /// All adjoint solves as one.
    pub fn adjoint(&self) -> Option<SolveInfo> {
        together(&self.adjoint)
    }

    /// Solves without convergence; adjoint ones count where they were to converge.
    pub fn failures(&self, is_exact: bool) -> u64 {
        let adjoint = self.adjoint.iter().filter(|_| is_exact);
        let all = self.forward.iter().chain(&self.evaluation).chain(adjoint).flatten();
        // What was to make a set number of steps did.
        all.filter(|solve| !solve.is_done()).count() as u64
    }

    /// Layer by layer, where there are several layers or steps.
    pub fn by_layer(&self) -> Vec<LayerRecord> {
        let told = self.told();
        let layers = told.first().map_or(0, Vec::len);
        if layers * told.len() < 2 {
            return Vec::new();
        }
        let of = |side: &[Vec<SolveInfo>], layer: usize| {
            let all: Vec<SolveInfo> =
                side.iter().filter_map(|step| step.get(layer)).copied().collect();
            SolveInfo::together(&all)
        };
        let record = |layer| LayerRecord {
            solves: told.len(),
            forward: of(told, layer).expect("a forward solve a layer"),
            adjoint: of(&self.adjoint, layer),
        };
        (0..layers).map(record).collect()
    }

    /// Nodes and edges times sweeps, a second of the solves of steps.
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
