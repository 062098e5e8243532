//! GCN as an equilibrium whose W is strictly block triangular: lambda(|W|) is 0, and as many sweeps
//! as layers are exact.

use ignn::config::{Config, ModelConfig, ModelKind};
use ignn::dense::Matrix;
use ignn::kernels::Activation;
use ignn::models::{Facts, Mode, Network, OnGraph};
use ignn::nn::{Features, InputMap, Operators};
use ignn::solver::{Method, SolveParams, Stopped};

use crate::engine::Rows;
use crate::reference::{Mat, Random};

const NODES: usize = 60;
const FEATURES: usize = 7;
const CLASSES: usize = 3;
const WIDTH: usize = 5;

fn logits(
    model: &mut Network,
    operators: &Operators,
    u: &Matrix,
    sweeps: usize,
) -> (Matrix, Option<Stopped>) {
    let mut on = OnGraph::new(model, operators, Features::Dense(u.clone()), false);
    // Sweeps alone: they are what is counted.
    let method = Method::Plain;
    let params =
        SolveParams { tolerance: 1e-30, max_sweeps: sweeps, method, ..SolveParams::default() };
    let solves = on.forward(model, &params, Mode::Evaluation).unwrap();
    let nodes: Vec<u32> = (0..NODES as u32).collect();
    let mut pass = on.pass(model, nodes.clone(), nodes);
    on.read_out(model, &mut pass, None);
    (pass.logits, solves.first().map(|solve| solve.stopped))
}

fn distance(a: &Matrix, b: &Matrix) -> f32 {
    let entries = (0..a.rows()).flat_map(|i| a.row(i).iter().zip(b.row(i)));
    entries.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn gcn_is_a_nilpotent_equilibrium_solved_in_as_many_sweeps_as_layers() {
    for depth in [2, 3, 5] {
        let mut random = Random::new(depth as u64);
        let mut a = Mat::new(NODES, NODES, |_, _| if random.unit() < 0.08 { 1.0 } else { 0.0 });
        (0..NODES).for_each(|i| a.data[i * NODES + i] = 1.0);
        let rows: Vec<f64> =
            (0..NODES).map(|i| (0..NODES).map(|k| a.at(i, k)).sum::<f64>()).collect();
        let a = Mat::new(NODES, NODES, |i, k| a.at(i, k) / (rows[i] * rows[k]).sqrt());
        let (incoming, outgoing) = (Rows::of(&a.t()), Rows::of(&a));
        let operators = Operators::new(vec![incoming.view()], vec![outgoing.view()]);
        let u = Matrix::from_fn(NODES, FEATURES, |_, _| random.sign() as f32);
        let facts = Facts {
            nodes: NODES,
            columns: Some(FEATURES),
            relations: vec!["edges".into()],
            radii: operators.radii().to_vec(),
            outputs: CLASSES,
            pools: false,
        };
        let plain = ModelConfig { dropout: 0.0, ..Config::default().model };
        let config =
            ModelConfig { kind: ModelKind::Gcn, depth, state: vec![WIDTH], ..plain.clone() };
        let mut gcn = Network::new(&config, &facts, 1, false).unwrap();
        for parameter in &mut gcn.parameters {
            let (rows, cols) = (parameter.value.rows(), parameter.value.cols());
            parameter.value = Matrix::from_fn(rows, cols, |_, _| random.sign() as f32);
        }

        // Blocks of the state: the hidden layers, then the logits and their negatives, as relu
        // would cut either.
        let hidden = (depth - 1) * WIDTH;
        let m = hidden + 2 * CLASSES;
        let config = ModelConfig {
            state: vec![m],
            activation: vec![Activation::Relu],
            input: InputMap::Gathered,
            bias: true,
            head_bias: false,
            ..plain
        };
        let mut implicit = Network::new(&config, &facts, 1, false).unwrap();
        let of =
            |name: String| gcn.parameters.iter().find(|p| p.name == name).unwrap().value.clone();
        let mut w = Matrix::zeros(m, m);
        let (mut omega, mut bias) = (Matrix::zeros(m, FEATURES), Matrix::zeros(1, m));
        for layer in 0..depth {
            let (map, own) = (of(format!("layer{layer}.Omega")), of(format!("layer{layer}.bias")));
            let is_last = layer + 1 == depth;
            for sign in if is_last { &[1.0, -1.0f32][..] } else { &[1.0] } {
                let first = layer * WIDTH + if *sign < 0.0 { CLASSES } else { 0 };
                for k in 0..map.rows() {
                    bias.row_mut(0)[first + k] = sign * own.row(0)[k];
                    for l in 0..map.cols() {
                        match layer {
                            0 => omega.row_mut(first + k)[l] = sign * map.row(k)[l],
                            _ => {
                                w.row_mut(first + k)[(layer - 1) * WIDTH + l] =
                                    sign * map.row(k)[l];
                            }
                        }
                    }
                }
            }
        }
        for parameter in &mut implicit.parameters {
            parameter.value = match parameter.name.as_str() {
                "layer0.W" => w.clone(),
                "layer0.Omega" => omega.clone(),
                "layer0.bias" => bias.clone(),
                "head.Theta" => Matrix::from_fn(CLASSES, m, |k, l| match l {
                    l if l == hidden + k => 1.0,
                    l if l == hidden + CLASSES + k => -1.0,
                    _ => 0.0,
                }),
                other => panic!("{other}"),
            };
        }
        let posedness = implicit.posedness(operators.radii());
        assert!(posedness[0].omega < 1e-3 && posedness[0].norm > 1.0, "{posedness:?}");

        let (expected, solved) = logits(&mut gcn, &operators, &u, 1);
        assert_eq!(solved, None, "nothing is solved");
        let largest =
            (0..NODES).flat_map(|i| expected.row(i)).fold(0f32, |most, x| most.max(x.abs()));
        let (short, _) = logits(&mut implicit, &operators, &u, depth - 1);
        assert!(
            distance(&short, &expected) > 1e-2 * largest,
            "{depth}: a sweep less is not enough"
        );
        let (exact, _) = logits(&mut implicit, &operators, &u, depth);
        assert!(
            distance(&exact, &expected) <= 2e-5 * largest,
            "{depth}: {}",
            distance(&exact, &expected)
        );
        // One sweep more moves nothing: a residual of 0 is below any tolerance.
        let (more, stopped) = logits(&mut implicit, &operators, &u, depth + 1);
        assert_eq!((distance(&more, &exact), stopped), (0.0, Some(Stopped::Converged)));
    }
}
