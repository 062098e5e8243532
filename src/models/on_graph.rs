//! A network on a graph: the memory in which its layers are solved, read out and differentiated.
//! The graph is that of a dataset, or a batch of its graphs. Parameters belong to [`Network`].
//! Which nodes are trained on, the loss and the optimiser steps belong to `train`.
//!
//! States are computed for all nodes. The readout works on compact rows ([`Pass`]): those of
//! selected nodes, or of selected graphs if the model pools.

mod bound;

use super::body::Body;
use super::layer_memory::{LayerMemory, Right};
use super::network::Network;
use super::pass::Pass;
use super::shape::LayerShape;
use crate::dense::{Matrix, MatrixRef};
use crate::kernels::{Added, elementwise, gradient, update_ghosts};
use crate::nn::{
    Backward, BatchNormMemory, Draw, Equilibrium, Features, Feed, Input, Operators, PoolingMemory,
    clear_rows, linear, normalise, scatter_rows, select_rows,
};
use crate::optim::values_and_gradients;
use crate::solver::{Posedness, SolveError, SolveInfo, SolveParams};

/// A failed solve and its layer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("layer {layer}: {source}")]
pub struct LayerError {
    /// Number of the layer, from 0.
    pub layer: usize,
    /// The cause.
    pub source: SolveError,
}

/// The purpose of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Evaluation: normalisations use their running statistics.
    Evaluation,
    /// Training: normalisations use the statistics of the pass and update the running ones; dropout
    /// is drawn for this epoch.
    Training(u64),
}

/// The input map of a layer.
#[allow(clippy::large_enum_variant)] // One per layer.
enum Fed {
    Features(Input),
    Below(Feed),
}

struct Layer {
    fed: Fed,
    /// The rows of the layer below after dropout, and the epoch of the dropout.
    dropped: Option<(Matrix, u64)>,
    body: Body,
    memory: LayerMemory,
    /// State plus skip connection, if there is one.
    mixed: Option<Matrix>,
    /// Its normalisation.
    normed: Option<(Matrix, BatchNormMemory)>,
}

impl Layer {
    /// Drops entries of the layer's input, if the layer has dropout and the pass is for training.
    fn drop_entries(
        &mut self,
        shape: &LayerShape,
        x: Option<MatrixRef<'_>>,
        draw: Option<Draw<'_>>,
    ) {
        let drawn = shape.dropout.zip(draw);
        match (&mut self.fed, x) {
            (Fed::Features(input), _) => {
                input.drop_entries(
                    drawn.map(|(dropout, draw)| (dropout.mask(draw.epoch), draw.ids)),
                );
            }
            (Fed::Below(_), Some(x)) => {
                let memory = self.dropped.take().map(|(kept, _)| kept);
                self.dropped = drawn.map(|(dropout, draw)| {
                    let mut kept = memory.unwrap_or_else(|| Matrix::zeros(x.rows(), x.cols()));
                    elementwise::copy(x, kept.view_mut());
                    dropout.apply(draw.epoch, draw.ids, kept.view_mut());
                    (kept, draw.epoch)
                });
            }
            (Fed::Below(_), None) => unreachable!("the first layer is fed by features"),
        }
    }

    /// State plus skip connection.
    fn mixed(&self) -> MatrixRef<'_> {
        self.mixed.as_ref().unwrap_or(self.body.state()).view()
    }

    /// The result of the layer, which the next layer or the readout takes.
    fn result(&self) -> MatrixRef<'_> {
        self.normed.as_ref().map_or_else(|| self.mixed(), |(result, _)| result.view())
    }
}

/// The memory of a model on a graph.
pub struct OnGraph {
    operators: Operators,
    layers: Vec<Layer>,
    /// The first row of each graph, and the end of the last one.
    graphs: Vec<u64>,
    /// For each row, the number of its node in the dataset.
    ids: Vec<u32>,
    /// Whether input terms are still there after a forward pass.
    keeps_inputs: bool,
    /// Whether the gradient of the learned table has the buffer of the first layer's solves.
    is_lent: bool,
}

impl OnGraph {
    /// The memory for all nodes of the operators; with `trains`, also that of gradients.
    pub fn new(model: &Network, operators: &Operators, features: Features, trains: bool) -> Self {
        let shape = model.layers[0].input.clone();
        let input = Input::new(operators, features, shape, model.reads_own_features());
        Self::with_input(model, operators, input, trains)
    }

    /// The same with features that are already prepared.
    pub fn with_input(model: &Network, operators: &Operators, input: Input, trains: bool) -> Self {
        let mut input = Some(input);
        let layer = |(at, shape): (usize, &LayerShape)| {
            let (pools, is_alone) = (model.pooling.is_some(), operators.rows().is_alone());
            let memory = LayerMemory::new(&model.layers, at, pools, is_alone);
            let (nodes, width) = (operators.rows().with_ghosts(), shape.width);
            Layer {
                fed: match input.take() {
                    Some(input) => Fed::Features(input),
                    None => Fed::Below(Feed::new(operators, shape.input.clone())),
                },
                dropped: None,
                body: Body::new(operators, shape, memory, trains),
                memory,
                mixed: shape.between.map(|_| Matrix::zeros(nodes, width)),
                normed: shape
                    .norm
                    .map(|_| (Matrix::zeros(nodes, width), BatchNormMemory::default())),
            }
        };
        let layers = model.layers.iter().enumerate().map(layer).collect();
        let (graphs, ids) = (vec![0, operators.nodes() as u64], operators.rows().numbers());
        let operators = operators.clone();
        Self { operators, layers, graphs, ids, keeps_inputs: false, is_lent: false }
    }

    /// The same, but the input terms of the last forward pass stay, for measurements. Otherwise a
    /// learned table that is the input term takes its place during a pass, without a copy.
    pub fn keep_inputs(mut self) -> Self {
        for layer in &mut self.layers {
            layer.body.share_nothing();
            layer.memory = LayerMemory::whole();
        }
        Self { keeps_inputs: true, ..self }
    }

    /// Declares the rows of several graphs: the first row of each, and the end of the last one.
    ///
    /// # Panics
    /// If the end of the last graph is not the number of nodes.
    pub fn with_graphs(mut self, graphs: Vec<u64>) -> Self {
        assert_eq!(graphs.last(), Some(&(self.operators.nodes() as u64)), "graphs of these nodes");
        self.graphs = graphs;
        self
    }

    /// Declares the dataset number of each row's node. Dropout masks are drawn by it.
    ///
    /// # Panics
    /// If there is not one number per node.
    pub fn with_ids(mut self, ids: &[u32]) -> Self {
        assert_eq!(ids.len(), self.operators.nodes(), "one number per node");
        self.ids = ids.to_vec();
        self
    }

    /// The graph.
    pub fn operators(&self) -> &Operators {
        &self.operators
    }

    /// The equilibrium layers, with their states, adjoints and certificate vectors.
    pub fn equilibria(&self) -> impl Iterator<Item = &Equilibrium> {
        self.layers.iter().filter_map(|layer| match &layer.body {
            Body::Equilibrium(layer) => Some(&**layer),
            Body::Explicit(_) => None,
        })
    }

    /// The equilibrium layers, mutable.
    pub fn equilibria_mut(&mut self) -> impl Iterator<Item = &mut Equilibrium> {
        self.layers.iter_mut().filter_map(|layer| match &mut layer.body {
            Body::Equilibrium(layer) => Some(&mut **layer),
            Body::Explicit(_) => None,
        })
    }

    /// The states from which explicit layers start the next pass, with the number of the layer.
    pub fn kept_states(&self) -> Vec<(usize, &Matrix)> {
        let layers = self.layers.iter().enumerate();
        let kept = layers.filter_map(|(at, layer)| match &layer.body {
            Body::Equilibrium(_) => None,
            Body::Explicit(layer) => Some((at, layer.kept()?)),
        });
        kept.collect()
    }

    /// Restores a state that [`OnGraph::kept_states`] returned.
    pub fn keep_state(&mut self, layer: usize, state: Matrix) {
        if let Body::Explicit(layer) = &mut self.layers[layer].body {
            layer.keep(state);
        }
    }

    /// Resets all states, so that the next pass starts from zero.
    pub fn reset(&mut self) {
        for layer in &mut self.layers {
            match &mut layer.body {
                Body::Equilibrium(layer) => layer.reset(),
                Body::Explicit(layer) => layer.reset(),
            }
        }
    }

    /// The result of the last layer, for all nodes.
    pub fn result(&self) -> MatrixRef<'_> {
        self.top().result()
    }

    /// The same, moved out without a copy.
    pub fn into_result(mut self) -> Matrix {
        let Layer { body, mixed, normed, .. } = self.layers.pop().expect("a model has a layer");
        normed.map(|normed| normed.0).or(mixed).unwrap_or_else(|| body.into_state())
    }

    /// The rows that the readout takes, before they are normalised: one row per node, or per graph
    /// if the model pools.
    pub fn seen(self, model: &Network) -> Matrix {
        let Some(pooling) = model.pooling else { return self.into_result() };
        let result = self.result();
        let mut pooled = Matrix::zeros(self.graphs.len() - 1, result.cols());
        pooling.forward(&self.graphs, result, &mut PoolingMemory::default(), pooled.view_mut());
        pooled
    }

    fn top(&self) -> &Layer {
        self.layers.last().expect("a model has a layer")
    }

    /// For each equilibrium layer, which condition for a unique equilibrium holds on this graph.
    pub fn posedness(&self, model: &Network) -> Vec<Posedness> {
        model.posedness(self.operators.radii())
    }

    /// Computes all layers from the bottom up. Equilibria start from their current states. Returns
    /// one record per solve.
    pub fn forward(
        &mut self,
        model: &mut Network,
        params: &SolveParams,
        mode: Mode,
    ) -> Result<Vec<SolveInfo>, LayerError> {
        let mut solves = Vec::new();
        self.lend_buffer(model, false);
        self.turn(false);
        let epoch = if let Mode::Training(epoch) = mode { Some(epoch) } else { None };
        let draw = epoch.map(|epoch| Draw { epoch, ids: &self.ids });
        let (rows, nodes) = (self.operators.rows(), self.operators.nodes());
        for at in 0..self.layers.len() {
            let (below, rest) = self.layers.split_at_mut(at);
            let (layer, x) = (&mut rest[0], below.last().map(Layer::result));
            layer.drop_entries(&model.layers[at], x, draw);
            let places = model.layers[at].at.clone();
            let values = model.values(&places.input);
            let takes_table = !self.keeps_inputs && model.layers[at].takes_table();
            let lent = model.table().filter(|_| takes_table);
            match (&mut layer.fed, x) {
                (Fed::Below(feed), Some(x)) => {
                    let x = layer.dropped.as_ref().map_or(x, |(kept, _)| kept.view());
                    feed.forward(&values, x, layer.body.input().view_mut().first(nodes));
                }
                (Fed::Features(input), _) if lent.is_none() => {
                    input.forward(&values, layer.body.input().view_mut().first(nodes));
                }
                (Fed::Features(_), _) => {}
                (Fed::Below(_), None) => unreachable!("the first layer is fed by features"),
            }
            let lend = |model: &mut Network, layer: &mut Layer| {
                if let Some(table) = lent {
                    std::mem::swap(&mut model.parameters[table].value, layer.body.input());
                }
            };
            lend(model, layer);
            let solved = layer.body.forward(&model.values(&places.weights), params, draw);
            lend(model, layer);
            solves.extend(solved.map_err(|source| LayerError { layer: at, source })?);
            if let (Some(mixed), Some(between)) = (&mut layer.mixed, model.layers[at].between) {
                let skip = model.values(&places.skip);
                let (v, bias) = (skip[0], skip[1].row(0));
                let mut own = mixed.view_mut().first(nodes);
                match (&layer.fed, x) {
                    (Fed::Features(input), _) => input.own_times(v, bias, own.reborrow()),
                    (_, Some(x)) => linear::forward(v, Some(bias), x.first(nodes), own.reborrow()),
                    (_, None) => unreachable!("the first layer is fed by features"),
                }
                elementwise::add_and_activate(between, layer.body.state().view().first(nodes), own);
                update_ghosts(rows, mixed.view_mut());
            }
            if let Some(norm) = model.layers[at].norm {
                let Layer { body, mixed, normed, .. } = layer;
                let (normed, memory) =
                    normed.as_mut().expect("memory of a layer that is normalised");
                let mixed = mixed.as_ref().unwrap_or(body.state()).view().first(nodes);
                let parameters = &model.parameters[places.norm];
                let values: Vec<_> =
                    parameters.iter().map(|parameter| parameter.value.view()).collect();
                let kept = &mut model.statistics[at];
                let own = normed.view_mut().first(nodes);
                match mode {
                    Mode::Training(_) => norm.train(rows, &values, mixed, kept, memory, own),
                    Mode::Evaluation => norm.evaluate(&values, mixed, kept, memory, own),
                }
                update_ghosts(rows, normed.view_mut());
            }
        }
        Ok(solves)
    }

    /// Memory for passes over these nodes, or graphs if the model pools. `items` are their numbers
    /// on this graph, `ids` those in the dataset, in the same order.
    ///
    /// # Panics
    /// If the items are not strictly increasing.
    pub fn pass(&self, model: &Network, items: Vec<u32>, ids: Vec<u32>) -> Pass {
        let graphs = if model.pooling.is_some() { self.graphs.len() - 1 } else { 0 };
        Pass::new(model, self.operators.rows(), items, ids, graphs)
    }

    /// Computes the logits of a pass; with dropout, if a training epoch is given.
    pub fn read_out(&self, model: &Network, pass: &mut Pass, epoch: Option<u64>) {
        let result = self.result();
        match model.pooling {
            Some(pooling) => {
                pooling.forward(&self.graphs, result, &mut pass.pooling, pass.pooled.view_mut());
                select_rows(pass.pooled.view(), &pass.items, &mut pass.rows);
            }
            None => self.collect_rows(result, pass),
        }
        if let Some(normalised) = &mut pass.normalised {
            normalise::forward(pass.rows.view_mut(), &mut pass.lengths);
            if epoch.is_some() {
                if normalised.rows() != pass.rows.rows() {
                    *normalised = Matrix::zeros(pass.rows.rows(), pass.rows.cols());
                }
                elementwise::copy(pass.rows.view(), normalised.view_mut());
            }
        }
        if let Some(epoch) = epoch {
            let mut entries = pass.rows.view().padded().iter();
            pass.is_dead =
                model.ends_in_relu() && !pass.ids.is_empty() && entries.all(|&x| x == 0.0);
            model.dropout.apply(epoch, &pass.ids, pass.rows.view_mut());
        }
        let head = model.values(&(model.head()..model.parameters.len()));
        model.readout.forward(&head, pass.rows.view(), &mut pass.memory, pass.logits.view_mut());
    }

    /// Copies the rows of the items, of all ranks.
    fn collect_rows(&self, result: MatrixRef<'_>, pass: &mut Pass) {
        let over = self.operators.rows();
        if over.is_alone() {
            return select_rows(result, &pass.items, &mut pass.rows);
        }
        let mut own = Matrix::zeros(pass.local.len(), result.cols());
        select_rows(result, &pass.local, &mut own);
        let mut rows = pass.rows.view_mut();
        let stride = rows.stride();
        let rows = rows.padded_mut();
        let place = pass.own.start * stride..pass.own.end * stride;
        rows[place].copy_from_slice(own.view().padded());
        over.share(&pass.items, rows, stride);
    }

    /// Computes the gradients of the readout alone, from dL/dlogits of a pass.
    pub fn backward_head(&self, model: &mut Network, pass: &mut Pass) {
        pass.prepare_backward();
        let head = model.head();
        let (values, mut gradients) = values_and_gradients(&mut model.parameters[head..]);
        let Pass { rows, by_logits, memory, by_rows, .. } = pass;
        let (rows, by_logits) = (rows.view(), by_logits.view());
        model.readout.backward(
            &values,
            rows,
            memory,
            by_logits,
            &mut gradients,
            by_rows.view_mut(),
        );
    }

    /// Computes the gradients of all parameters from dL/dlogits of a pass that was read out with
    /// the dropout of this epoch, after a forward pass for training. Returns one record per adjoint
    /// solve.
    pub fn backward(
        &mut self,
        model: &mut Network,
        pass: &mut Pass,
        epoch: u64,
        backward: Backward,
        params: &SolveParams,
    ) -> Result<Vec<SolveInfo>, LayerError> {
        self.lend_buffer(model, false);
        self.backward_head(model, pass);
        model.dropout.apply(epoch, &pass.ids, pass.by_rows.view_mut());
        if let Some(normalised) = &pass.normalised {
            normalise::backward(normalised.view(), &pass.lengths, pass.by_rows.view_mut());
        }
        self.turn(true);
        let own = self.scatter(model, pass);
        let rows = own.as_ref().unwrap_or(&pass.by_rows).view();
        let places = &pass.places;
        let mut given =
            (self.top().memory.right == Right::Rows).then_some(Added::Some { places, rows });
        let mut solves = Vec::new();
        for at in (0..self.layers.len()).rev() {
            let info = self.backward_layer(model, at, given.take(), backward, params);
            solves.extend(info.map_err(|source| LayerError { layer: at, source })?);
        }
        solves.reverse();
        Ok(solves)
    }

    /// Gives the memory of B to R where they share it, or takes it back.
    fn turn(&mut self, to_right: bool) {
        let shares = |layer: &&mut Layer| layer.memory.right == Right::Input;
        self.layers.iter_mut().filter(shares).for_each(|layer| layer.body.turn(to_right));
    }

    /// Gives the buffer of the first layer's solves to the gradient of the learned table, or takes it
    /// back.
    fn lend_buffer(&mut self, model: &mut Network, to_gradient: bool) {
        let Some(table) = model.table().filter(|_| to_gradient != self.is_lent) else { return };
        let parameter = &mut model.parameters[table];
        let first = &mut self.layers[0];
        if parameter.is_fixed() {
            return;
        }
        if !first.memory.lends_buffer {
            if parameter.gradient.rows() != parameter.value.rows() {
                parameter.gradient = Matrix::zeros(parameter.value.rows(), parameter.value.cols());
            }
            return;
        }
        let empty = Matrix::zeros(0, parameter.value.cols());
        let (_, _, buffer) = first.body.state_right_spare();
        let (from, to) = match to_gradient {
            true => (buffer, &mut parameter.gradient),
            false => (&mut parameter.gradient, buffer),
        };
        *to = std::mem::replace(from, empty);
        self.is_lent = to_gradient;
    }

    /// Computes dL/dresult of the last layer from dL/drows of a pass. Where the rows themselves are R,
    /// there is nothing to do, except that on several ranks it returns this one's own rows.
    fn scatter(&mut self, model: &Network, pass: &mut Pass) -> Option<Matrix> {
        let rows = self.operators.rows();
        let top = self.layers.last_mut().expect("a model has a layer");
        if top.memory.right == Right::Rows {
            pass.find_places(rows.len());
            return (!rows.is_alone()).then(|| pass.own_gradients());
        }
        let (_, right, _) = top.body.state_right_spare();
        if let Some(pooling) = model.pooling {
            // Rows of other graphs are zero and stay zero.
            scatter_rows(pass.by_rows.view(), &pass.items, pass.by_pooled.view_mut());
            let by_pooled = pass.by_pooled.view();
            pooling.backward(&self.graphs, &pass.pooling, by_pooled, right.view_mut());
            return None;
        }
        if top.normed.is_some() || top.memory.right == Right::Input {
            // The backward pass of the normalisation changes every row, B has other content.
            elementwise::clear(right.view_mut());
        }
        // Rows of other nodes are zero and stay zero.
        let by_rows = pass.by_rows.view().block(pass.own.clone());
        scatter_rows(by_rows, &pass.local, right.view_mut());
        None
    }

    /// Computes the adjoint and the gradients of a layer, and dL/dresult of the layer below, from
    /// dL/dresult of this layer, which is in its R or given.
    fn backward_layer(
        &mut self,
        model: &mut Network,
        at: usize,
        given: Option<Added<'_>>,
        backward: Backward,
        params: &SolveParams,
    ) -> Result<Option<SolveInfo>, SolveError> {
        let (below, rest) = self.layers.split_at_mut(at);
        let (layer, below) = (&mut rest[0], below.last_mut());
        let places = model.layers[at].at.clone();
        let (rows, nodes) = (self.operators.rows(), self.operators.nodes());
        let (state, right, spare) = layer.body.state_right_spare();
        if let (Some(norm), Some((_, memory))) = (model.layers[at].norm, &mut layer.normed) {
            let from = layer.mixed.as_ref().unwrap_or(state).view().first(nodes);
            let (values, mut gradients) = values_and_gradients(&mut model.parameters[places.norm]);
            let to = spare.view_mut().first(nodes);
            let g = right.view().first(nodes);
            norm.backward(rows, &values, from, memory, g, &mut gradients, to);
            match spare.rows() == right.rows() {
                true => std::mem::swap(right, spare),
                false => elementwise::copy(spare.view().first(nodes), right.view_mut()),
            }
        }
        // The gradient of the skip connection needs R as it is before the layer's backward pass.
        let mut by_mixed = None;
        if let (Some(between), Some(mixed)) = (model.layers[at].between, &layer.mixed) {
            let mut own = right.view_mut().first(nodes);
            elementwise::differentiate(between, mixed.view().first(nodes), own.reborrow());
            let g = own.as_ref();
            let by_v = match (&layer.fed, &below) {
                (Fed::Below(_), Some(below)) => {
                    gradient::input_over(rows, g, below.result().first(nodes))
                }
                (Fed::Features(input), _) => input.own_gradient(g),
                (Fed::Below(_), None) => unreachable!("the first layer is fed by features"),
            };
            let bias = gradient::bias_over(rows, g);
            model.parameters[places.skip.start].gradient = by_v;
            model.parameters[places.skip.start + 1].gradient.row_mut(0).copy_from_slice(&bias);
            by_mixed = layer.body.changed_right();
        }
        let weights = &mut model.parameters[places.weights];
        let info = layer.body.backward(given, weights, backward, params)?;
        if at == 0 {
            // The gradient of a learned table is written next, and read by the step.
            self.lend_buffer(model, true);
        }
        let (below, rest) = self.layers.split_at_mut(at);
        let (layer, below) = (&mut rest[0], below.last_mut());
        let rows = self.operators.rows();
        if model.layers[at].input.gathered() > 0 {
            layer.body.update_adjoint(rows);
        }
        let g = layer.body.adjoint().view();
        let (values, mut gradients) = values_and_gradients(&mut model.parameters[places.input]);
        match (&mut layer.fed, below) {
            (Fed::Features(input), _) => input.backward(g, &mut gradients),
            (Fed::Below(feed), Some(below)) => {
                let Layer { body, mixed, normed, .. } = below;
                let (state, by_x, spare) = body.state_right_spare();
                let mut by_x = by_x.view_mut().first(nodes);
                let x = normed.as_ref().map(|normed| &normed.0).or(mixed.as_ref()).unwrap_or(state);
                match (&layer.dropped, model.layers[at].dropout) {
                    (Some((kept, epoch)), Some(dropout)) => {
                        feed.backward(&values, kept.view(), g, &mut gradients, by_x.reborrow());
                        dropout.apply(*epoch, &self.ids[..nodes], by_x.reborrow());
                    }
                    _ => feed.backward(&values, x.view(), g, &mut gradients, by_x.reborrow()),
                }
                if model.layers[at].between.is_some() {
                    let v = model.parameters[places.skip.start].value.view();
                    let by_mixed = by_mixed.as_ref().unwrap_or(layer.body.right());
                    let by_mixed = by_mixed.view().first(nodes);
                    linear::backward(v, by_mixed, spare.view_mut().first(nodes));
                    elementwise::add(spare.view().first(nodes), by_x);
                }
            }
            (Fed::Below(_), None) => unreachable!("the first layer is fed by features"),
        }
        Ok(info)
    }

    /// Sets the rows of a pass in dL/dresult to zero, before another pass is differentiated.
    pub fn clear(&mut self, pass: &mut Pass) {
        let top = self.layers.last_mut().expect("a model has a layer");
        match pass.by_pooled.rows() {
            // Made anew by every pass.
            0 if matches!(top.memory.right, Right::Rows | Right::Input) => {}
            0 => {
                clear_rows(&pass.local, top.body.state_right_spare().1.view_mut());
            }
            _ => clear_rows(&pass.items, pass.by_pooled.view_mut()),
        }
    }
}
