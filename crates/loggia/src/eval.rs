//! `loggia fn eval`: one function on a folder or a stream.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use loggia_go::quote;
use loggia_krm::kptfile::{Function, Kptfile, KptfileDocument, Selector, check_image};
use loggia_krm::package::{KPTFILE, ReadOptions, WriteOptions, changes};
use loggia_krm::{Changes, Package, Resource, ResourceList, StreamOptions};
use loggia_render::{Evaluated, Evaluation, FunctionRef, check_prefix, split_words, with_prefix};
use loggia_yaml::{Node, Pair};

use crate::cli::{Containers, Eval, Format, Selection};
use crate::failure::Failure;
use crate::output::{self, Destination};
use crate::printer::Printer;
use crate::render::{refuse_wasm, resolve_folder};
use crate::{report, runtimes, sink};

/// What is saved as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Mutator,
    Validator,
}

pub(crate) fn run(arguments: Eval) -> Result<(), Failure> {
    let Eval {
        places,
        arguments: words,
        image,
        exec,
        tag,
        function_type,
        save,
        fn_config,
        results_dir,
        output,
        network,
        mount,
        env,
        as_current_user,
        include_meta_resources,
        selection,
        containers,
        runtimes: runtime_flags,
    } = arguments;
    let Containers { image_pull_policy: _, image_prefix, allow_alpha_wasm } = containers;
    refuse_wasm(allow_alpha_wasm)?;
    if include_meta_resources {
        return Err(
            "--include-meta-resources is no longer necessary because meta resources are now included by default".into()
        );
    }
    let role = role(function_type.as_deref(), save)?;
    let destination = Destination::parse(output.as_deref())?;
    let json = runtime_flags.output_format == Format::Json;
    let image_prefix = check_prefix(&image_prefix).map_err(|error| error.to_string())?;
    let function = function(image.as_deref(), exec.as_deref(), &image_prefix)?;
    let for_containers = as_current_user || network || !mount.is_empty() || !env.is_empty();
    if for_containers && matches!(function, FunctionRef::Exec(_)) {
        return Err(
            "--mount, --as-current-user, --network and --env can only be used with container functions"
                .into(),
        );
    }
    let place = match places.as_slice() {
        [] => ".",
        [place] => place.as_str(),
        _ => return Err("0 or 1 arguments supported, function arguments go after '--'".into()),
    };
    if !words.is_empty() && fn_config.is_some() {
        return Err("function arguments can only be specified without function config file".into());
    }
    let (data, config) = config_of(&words)?;
    let config = match &fn_config {
        Some(file) => read_config(file)?,
        None => config,
    };
    let mut printer = if json { Printer::quiet() } else { Printer::stderr() };
    let folder = match place {
        "-" => None,
        place => Some(resolve_folder(Path::new(place), &mut printer)?),
    };
    if json
        && (folder.is_none() || destination.as_ref().is_some_and(|to| !matches!(to, Destination::Folder(_))))
    {
        return Err(
            "--output-format json writes to standard output itself; give a folder, and -o DIR if any".into(),
        );
    }
    if let (true, Some(file), Some(folder)) = (save, &fn_config, &folder)
        && !absolute(file).starts_with(folder)
    {
        let folder = folder.display();
        return Err(format!(
            "--fn-config must be under {folder} if saving functions to Kptfile (--save=true)"
        )
        .into());
    }
    output::prepare_results(results_dir.as_deref())?;

    let (selector, exclusion) = selectors(&selection)?;
    let runtime = runtimes::assemble(&runtime_flags, true)?;
    let evaluation = Evaluation {
        runtime: &runtime,
        function: function.clone(),
        config: Some(config),
        selector: selector.clone(),
        exclusion: exclusion.clone(),
        strict: runtime_flags.strict,
    };
    let mut package = match &folder {
        Some(folder) => read_folder(folder)?,
        None => Package { resources: sink::read_stream()?, ..Package::default() },
    };
    let aside = folder
        .as_deref()
        .zip(fn_config.as_deref())
        .map_or_else(Vec::new, |(folder, file)| take_out(&mut package.resources, folder, file));
    let resources = std::mem::take(&mut package.resources);
    let Evaluated { results, resources } = runtimes::block_on(evaluation.run(resources, &mut printer))?;
    let ended = resources.map_err(explain).and_then(|mut resources| {
        resources.extend(aside);
        write(resources, &package, folder.as_deref(), destination.as_ref())
    });
    output::write_results(results_dir.as_deref(), &results, &mut printer, "\n")?;
    if json {
        let error = ended.as_ref().err().map(|failure| failure.text(false));
        report::eval(&results, error, ended.as_ref().ok().and_then(Option::as_ref))?;
    }
    ended?;
    if save && let Some(folder) = &folder {
        let function = Function {
            tag: tag.unwrap_or_default(),
            config_path: fn_config.map(|file| relative(&file, folder)).unwrap_or_default(),
            config_map: data,
            selectors: some(selector),
            exclusions: some(exclusion),
            ..named(&function)
        };
        let text = save_function(folder, function, role)?;
        printer.say(&text);
    }
    Ok(())
}

// === what to run ===

fn role(text: Option<&str>, save: bool) -> Result<Role, Failure> {
    match text {
        Some("mutator") => Ok(Role::Mutator),
        Some("validator") => Ok(Role::Validator),
        None if !save => Ok(Role::Mutator),
        None => Err("--type must be specified if saving functions to Kptfile (--save=true)".into()),
        Some(_) => Err("--type must be either `mutator` or `validator`".into()),
    }
}

fn function(image: Option<&str>, exec: Option<&str>, prefix: &str) -> Result<FunctionRef, Failure> {
    match (image.filter(|image| !image.is_empty()), exec.filter(|exec| !exec.is_empty())) {
        (Some(image), _) => {
            let image = with_prefix(image, prefix);
            check_image(&image)?;
            Ok(FunctionRef::Image(image))
        }
        (None, Some(exec)) => {
            split_words(exec)
                .map_err(|error| format!("exec command {} must be valid: {error}", quote(exec)))?;
            Ok(FunctionRef::Exec(exec.to_owned()))
        }
        (None, None) => Err("must specify --image or --exec".into()),
    }
}

fn named(function: &FunctionRef) -> Function {
    match function {
        FunctionRef::Image(image) => Function { image: image.clone(), ..Function::default() },
        FunctionRef::Exec(exec) => Function { exec: exec.clone(), ..Function::default() },
    }
}

fn selectors(selection: &Selection) -> Result<(Selector, Selector), Failure> {
    let Selection {
        match_api_version,
        match_kind,
        match_name,
        match_namespace,
        match_annotations,
        match_labels,
        exclude_api_version,
        exclude_kind,
        exclude_name,
        exclude_namespace,
        exclude_annotations,
        exclude_labels,
    } = selection.clone();
    let selector = Selector {
        api_version: match_api_version,
        kind: match_kind,
        name: match_name,
        namespace: match_namespace,
        labels: entries("--match-labels", &match_labels)?,
        annotations: entries("--match-annotations", &match_annotations)?,
    };
    let exclusion = Selector {
        api_version: exclude_api_version,
        kind: exclude_kind,
        name: exclude_name,
        namespace: exclude_namespace,
        labels: entries("--exclude-labels", &exclude_labels)?,
        annotations: entries("--exclude-annotations", &exclude_annotations)?,
    };
    Ok((selector, exclusion))
}

fn entries(flag: &str, texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let entry = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(format!("{flag} must be KEY=VALUE, got {}", quote(text)).into()),
    };
    texts.iter().map(entry).collect()
}

fn some(selector: Selector) -> Vec<Selector> {
    if selector.is_empty() { Vec::new() } else { vec![selector] }
}

// === function config ===

/// The function config that arguments stand for, and its data. The keys are in the order that kpt gives them.
fn config_of(words: &[String]) -> Result<(BTreeMap<String, String>, Node), Failure> {
    let mut kind = "ConfigMap";
    let mut data = BTreeMap::new();
    let mut node = Node::mapping();
    node.set_flow(true);
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((key, value)) => {
                node.set(key, Node::string_for_field(value));
                data.insert(key.to_owned(), value.to_owned());
            }
            None if at == 0 => kind = word,
            None => return Err("args must have keys and values separated by =".into()),
        }
    }
    let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
    let config = Node::from_pairs(vec![
        pair("metadata", Node::from_pairs(vec![pair("name", Node::verbatim("function-input"))])),
        pair("data", node),
        pair("kind", Node::verbatim(kind)),
        pair("apiVersion", Node::verbatim("v1")),
    ]);
    Ok((data, config))
}

fn read_config(file: &Path) -> Result<Node, Failure> {
    let shown = file.display().to_string();
    if !file.exists() {
        return Err(format!("missing function config file: {shown}").into());
    }
    let content = fs::read(file)
        .map_err(|error| format!("failed to open functionConfig from path {shown:?}: {error}"))?;
    let mut list = ResourceList::parse(&content, StreamOptions::default())
        .map_err(|error| format!("failed to read functionConfig {shown:?}: {error}"))?;
    list.remove_stream_annotations();
    let mut only = match <[Resource; 1]>::try_from(list.items) {
        Ok([only]) => only,
        Err(items) if items.is_empty() => {
            return Err(format!("functionConfig {shown:?} must contain one config, got 0").into());
        }
        Err(items) => {
            let count = items.len();
            return Err(format!(
                "functionConfig {shown:?} must not contain more than one config, got {count}"
            )
            .into());
        }
    };
    only.check_krm().map_err(|missing| format!("functionConfig {shown:?}: {missing}"))?;
    // It was read as a stream, which leaves empty annotations behind.
    let _ = only.drop_empty_metadata();
    Ok(only.into_document().root)
}

// === resources ===

fn read_folder(folder: &Path) -> Result<Package, Failure> {
    let options = ReadOptions { subpackages: true, ..ReadOptions::default() };
    Package::from_folder(folder, &options).map_err(|error| error.to_string().into())
}

/// A function config that lies in the folder is no input.
fn take_out(resources: &mut Vec<Resource>, folder: &Path, config: &Path) -> Vec<Resource> {
    let path = relative(config, folder);
    let (aside, rest) = std::mem::take(resources).into_iter().partition(|resource| resource.path() == path);
    *resources = rest;
    aside
}

fn write(
    resources: Vec<Resource>,
    package: &Package,
    folder: Option<&Path>,
    destination: Option<&Destination>,
) -> Result<Option<Changes>, Failure> {
    match (destination, folder) {
        (Some(destination), _) => destination.write(resources).map(|()| None),
        (None, None) => Destination::Stdout.write(resources).map(|()| None),
        (None, Some(folder)) => {
            let planned = changes(resources, &package.sources, &package.name, &WriteOptions::default())
                .map_err(|error| error.to_string())?;
            planned.apply_to_folder(folder).map_err(|error| error.to_string())?;
            Ok(Some(planned))
        }
    }
}

/// Failures outside of a render are told in lower case.
fn explain(error: loggia_render::RenderError) -> Failure {
    match error.cause {
        loggia_render::Cause::FunctionFailed => Failure::Told,
        cause => Failure::Plain(cause.to_string()),
    }
}

fn absolute(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_owned())
}

fn relative(file: &Path, folder: &Path) -> String {
    let file = absolute(file);
    file.strip_prefix(folder).unwrap_or(&file).display().to_string()
}

// === saving ===

/// Puts the function into the Kptfile, in the place of the same one if it is there.
fn save_function(folder: &Path, function: Function, role: Role) -> Result<String, Failure> {
    let file = folder.join(KPTFILE);
    let document = fs::read_to_string(&file)
        .ok()
        .and_then(|text| KptfileDocument::parse(&text, &folder.display().to_string()).ok());
    let Some(mut document) = document else {
        return Ok("function not added: Kptfile not exists\n".to_owned());
    };
    let name = if function.image.is_empty() { function.exec.clone() } else { function.image.clone() };
    let mut updated = false;
    document.edit(|kptfile| updated = put(kptfile, function, role));
    let text = document.to_ordered_yaml();
    let planned = Changes {
        package: folder.display().to_string(),
        writes: BTreeMap::from([(KPTFILE.to_owned(), text)]),
        ..Changes::default()
    };
    planned.apply_to_folder(folder).map_err(|error| format!("function is not added to Kptfile: {error}"))?;
    let deed = if updated { "Updated" } else { "Added" };
    let role = match role {
        Role::Mutator => "mutator",
        Role::Validator => "validator",
    };
    Ok(format!("{deed} {} as {role} in the Kptfile.\n", quote(&name)))
}

/// Whether the function was there.
fn put(kptfile: &mut Kptfile, function: Function, role: Role) -> bool {
    let pipeline = kptfile.pipeline.get_or_insert_default();
    let list = match role {
        Role::Mutator => &mut pipeline.mutators,
        Role::Validator => &mut pipeline.validators,
    };
    let same = |other: &Function| {
        (!other.image.is_empty() && other.image == function.image)
            || (!other.exec.is_empty() && other.exec == function.exec)
    };
    let mut found = false;
    for other in list.iter_mut().filter(|other| same(other)) {
        other.clone_from(&function);
        found = true;
    }
    if !found {
        list.push(function);
    }
    found
}
