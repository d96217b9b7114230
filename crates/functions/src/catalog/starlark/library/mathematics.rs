//! `math`.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::float::UnpackFloat;
use starlark::values::{Heap, Value};

#[starlark_module]
pub(in crate::catalog::starlark) fn math(builder: &mut GlobalsBuilder) {
    const e: f64 = std::f64::consts::E;
    const pi: f64 = std::f64::consts::PI;

    fn ceil<'v>(#[starlark(require = pos)] x: UnpackFloat, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        whole(x.0.ceil(), heap)
    }
    fn floor<'v>(#[starlark(require = pos)] x: UnpackFloat, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        whole(x.0.floor(), heap)
    }
    fn fabs(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.abs())
    }
    fn round(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.round())
    }
    fn sqrt(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.sqrt())
    }
    fn exp(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.exp())
    }
    fn pow(
        #[starlark(require = pos)] x: UnpackFloat,
        #[starlark(require = pos)] y: UnpackFloat,
    ) -> anyhow::Result<f64> {
        Ok(x.0.powf(y.0))
    }
    fn copysign(
        #[starlark(require = pos)] x: UnpackFloat,
        #[starlark(require = pos)] y: UnpackFloat,
    ) -> anyhow::Result<f64> {
        Ok(x.0.copysign(y.0))
    }
    fn hypot(
        #[starlark(require = pos)] x: UnpackFloat,
        #[starlark(require = pos)] y: UnpackFloat,
    ) -> anyhow::Result<f64> {
        Ok(x.0.hypot(y.0))
    }
    fn r#mod(
        #[starlark(require = pos)] x: UnpackFloat,
        #[starlark(require = pos)] y: UnpackFloat,
    ) -> anyhow::Result<f64> {
        Ok(x.0 % y.0)
    }
    fn log(
        #[starlark(require = pos)] x: UnpackFloat,
        #[starlark(require = pos)] base: Option<UnpackFloat>,
    ) -> anyhow::Result<f64> {
        Ok(base.map_or_else(|| x.0.ln(), |base| x.0.ln() / base.0.ln()))
    }
    fn sin(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.sin())
    }
    fn cos(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.cos())
    }
    fn tan(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.tan())
    }
    fn degrees(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.to_degrees())
    }
    fn radians(#[starlark(require = pos)] x: UnpackFloat) -> anyhow::Result<f64> {
        Ok(x.0.to_radians())
    }
}

/// Rounding to a whole number gives an int; the numbers a cluster counts fit 64 bits.
fn whole(value: f64, heap: Heap<'_>) -> anyhow::Result<Value<'_>> {
    #[expect(clippy::cast_precision_loss, reason = "the bound itself need not be exact")]
    let limit = i64::MAX as f64;
    if !value.is_finite() || value.abs() >= limit {
        anyhow::bail!("cannot convert float {value} to integer");
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let value = value as i64;
    Ok(heap.alloc(value))
}
