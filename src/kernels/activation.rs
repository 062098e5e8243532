//! Activations: componentwise, non-expansive, with their derivatives.
//! Scalar definitions, the reference for the vectorised ones.

use crate::settings::words;

words! {
    /// A componentwise map phi with |phi'| <= 1.
    pub enum Activation {
        /// z
        Identity = "identity",
        /// max(z, 0)
        Relu = "relu",
        /// z where positive, `slope` times z elsewhere
        LeakyRelu(f32 = 0.01) = "leaky-relu",
        /// tanh z
        Tanh = "tanh",
        /// 1 / (1 + exp(-z))
        Sigmoid = "sigmoid",
        /// z where positive, exp(z) - 1 elsewhere
        Elu = "elu",
    }
}

impl Activation {
    /// The same activation with this slope, if it has one.
    pub fn with_slope(self, slope: f64) -> Self {
        match self {
            Self::LeakyRelu(_) => Self::LeakyRelu(slope as f32),
            other => other,
        }
    }

    /// phi(z)
    ///
    /// ```
    /// use ignn::kernels::Activation;
    ///
    /// assert_eq!(Activation::LeakyRelu(0.5).value(-3.0), -1.5);
    /// // The derivative follows from the value: tanh' = 1 - tanh^2.
    /// let x = Activation::Tanh.value(0.0);
    /// assert_eq!((x, Activation::Tanh.derivative(x)), (0.0, 1.0));
    /// ```
    pub fn value(self, z: f32) -> f32 {
        match self {
            Self::Identity => z,
            // Not f32::max, which turns NaN into 0.
            Self::Relu => {
                if z < 0.0 {
                    0.0
                } else {
                    z
                }
            }
            Self::LeakyRelu(slope) => {
                if z < 0.0 {
                    slope * z
                } else {
                    z
                }
            }
            Self::Tanh => z.tanh(),
            Self::Sigmoid => 1.0 / (1.0 + (-z).exp()),
            Self::Elu => {
                if z < 0.0 {
                    z.exp_m1()
                } else {
                    z
                }
            }
        }
    }

    /// phi'(z), given x = phi(z): the derivative of every activation here follows from its value.
    pub fn derivative(self, x: f32) -> f32 {
        let below = match self {
            Self::Identity => return 1.0,
            Self::Relu => 0.0,
            Self::LeakyRelu(slope) => slope,
            Self::Tanh => return 1.0 - x * x,
            Self::Sigmoid => return x * (1.0 - x),
            Self::Elu => x + 1.0,
        };
        if x > 0.0 { 1.0 } else { below }
    }

    /// The derivative where x is not positive, of activations whose derivative is 1 elsewhere: one
    /// bit per entry then determines the derivative.
    pub fn slope_below(self) -> Option<f32> {
        match self {
            Self::Relu => Some(0.0),
            Self::LeakyRelu(slope) => Some(slope),
            _ => None,
        }
    }

    /// Whether phi(c z) = c phi(z) for c > 0.
    pub fn is_homogeneous(self) -> bool {
        matches!(self, Self::Identity | Self::Relu | Self::LeakyRelu(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_agree_with_differences() {
        use Activation::*;
        for activation in [Identity, Relu, LeakyRelu(0.2), Tanh, Sigmoid, Elu] {
            for z in [-3.0f32, -0.7, -0.1, 0.1, 0.8, 2.5] {
                let h = 1e-2;
                let difference = (activation.value(z + h) - activation.value(z - h)) / (2.0 * h);
                let derivative = activation.derivative(activation.value(z));
                assert!((difference - derivative).abs() < 1e-3, "{activation:?} at {z}");
                assert!(derivative.abs() <= 1.0);
            }
            assert!(activation.value(f32::NAN).is_nan());
        }
        assert_eq!(Relu.derivative(0.0), 0.0);
    }
}
