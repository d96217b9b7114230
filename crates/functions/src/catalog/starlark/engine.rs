//! One run of a program: its environment, its limits, what it prints.

use std::any::Any;
use std::cell::RefCell;

use loggia_yaml::Node;
use starlark::PrintHandler;
use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension, Module};
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect};
use starlark::values::dict::AllocDict;
use starlark::values::structs::AllocStruct;

use super::Program;
use super::dialect;
use super::library::Libraries;
use super::message;
use super::value::{Reader, Writer};
use crate::limits;

/// Calls inside calls. The thread's stack is sized for them.
const MAX_CALLS: usize = 4_000;
/// Function calls and loop rounds: some minutes' worth, and long past the deadline of the process around it.
const MAX_TICKS: u64 = 20_000_000_000;
/// Bytes of values. The engine looks only now and then, so a program can overrun it.
const MAX_HEAP: usize = 1 << 30;
/// Bytes of printed text.
const MAX_PRINTED: usize = 1 << 20;
const STACK: usize = if cfg!(debug_assertions) { 512 << 20 } else { 128 << 20 };

/// What a run needs.
pub(super) struct Input {
    pub(super) program: Program,
    pub(super) items: Vec<Node>,
    pub(super) function_config: Option<Node>,
}

/// What a run leaves.
pub(super) struct Output {
    pub(super) printed: String,
    /// The items, or the message of the error.
    pub(super) items: Result<Vec<Node>, String>,
}

#[derive(Default)]
struct Printed(RefCell<String>);

/// Runs on a thread of its own: deep recursion of a program needs more stack than callers have.
pub(super) fn run(input: Input) -> Output {
    let failed = |text: &str| Output { printed: String::new(), items: Err(text.to_owned()) };
    match limits::on_thread("starlark", STACK, move || run_here(&input)) {
        Ok(ended) => ended.unwrap_or_else(|panic| failed(&broken_down(&*panic))),
        Err(error) => failed(&format!("no thread for the Starlark engine: {error}")),
    }
}

/// The engine gives up by a panic where it gets no more memory.
fn broken_down(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    match text {
        "out of memory" => "Starlark program needs more memory than it may have".to_owned(),
        text => format!("the Starlark engine broke down on this program: {text}"),
    }
}

fn run_here(input: &Input) -> Output {
    let printed = Printed::default();
    let items = evaluate(input, &printed);
    Output { printed: printed.0.into_inner(), items }
}

fn evaluate(input: &Input, printed: &Printed) -> Result<Vec<Node>, String> {
    let Program { name, source } = &input.program;
    dialect::check_nesting(source)?;
    let rewritten = dialect::rewrite(source);
    let dialect =
        Dialect { enable_top_level_stmt: true, enable_keyword_only_arguments: true, ..Dialect::Standard };
    let ast = AstModule::parse(name, rewritten.text.clone(), &dialect)
        .map_err(|error| message::of(&error, name, source, &rewritten))?;
    Module::with_temp_heap(|module| {
        let heap = module.heap();
        let mut reader = Reader::new(heap);
        let list = reader.resource_list(&input.items, input.function_config.as_ref())?;
        let open_api =
            if source.contains("open_api") { reader.open_api()? } else { heap.alloc(AllocDict::EMPTY) };
        // Only what the guard of this process chose to hand on.
        let environment = heap.alloc(AllocDict(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        ));
        let context = [("resource_list", list), ("open_api", open_api), ("environment", environment)];
        module.set("ctx", heap.alloc(AllocStruct(context)));

        let globals = globals();
        let mut evaluator = Evaluator::new(&module);
        limit(&mut evaluator).map_err(|error| error.to_string())?;
        evaluator.set_print_handler(printed);
        evaluator.set_loader(&Libraries);
        let outcome = evaluator.eval_module(ast, &globals);
        outcome.map_err(|error| message::of(&error, name, source, &rewritten))?;
        drop(evaluator);
        Writer::new(reader).items(list, &input.items)
    })
}

/// Values must not move while they are known by their address, so nothing is collected.
fn limit(evaluator: &mut Evaluator<'_, '_, '_>) -> anyhow::Result<()> {
    evaluator.disable_gc();
    evaluator.set_max_callstack_size(MAX_CALLS)?;
    evaluator.set_max_heap_size(MAX_HEAP)?;
    evaluator.set_max_tick_count(MAX_TICKS)
}

fn globals() -> Globals {
    let mut builder = GlobalsBuilder::standard();
    LibraryExtension::Print.add(&mut builder);
    LibraryExtension::SetType.add(&mut builder);
    builder.set(dialect::FOREVER, i32::MAX);
    builder.build()
}

impl PrintHandler for Printed {
    fn println(&self, text: &str) -> starlark::Result<()> {
        let mut printed = self.0.borrow_mut();
        if printed.len() + text.len() >= MAX_PRINTED {
            let message = format!("print: more than {MAX_PRINTED} bytes");
            return Err(starlark::Error::new_other(anyhow::anyhow!(message)));
        }
        printed.push_str(text);
        printed.push('\n');
        Ok(())
    }
}
