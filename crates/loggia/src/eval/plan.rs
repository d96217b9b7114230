//! From the command line of `loggia fn eval` to a plan that only has to be carried out.
//!
//! A plan decides; what it must know of the machine it asks of a [`Machine`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use loggia_function::image::check_prefix;
use loggia_function::{FunctionRef, Image};
use loggia_go::quote;
use loggia_krm::kptfile::{Function, Selector, check_image};
use loggia_krm::package::Limits;
use loggia_runtimes::split_words;
use loggia_yaml::Node;

use super::function_config;
use crate::cli::{Containers, Eval, Format, PackageLimits, Runtimes, Selection};
use crate::failure::Failure;
use crate::output::Destination;
use crate::render::refuse_wasm;

/// One function on a folder or a stream. Everything in it was checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) input: Input,
    pub(super) function: FunctionRef,
    pub(super) config: Node,
    /// The file that the function config was read from, as a path in the folder, if it is in there.
    pub(super) config_path: Option<String>,
    pub(super) selector: Selector,
    pub(super) exclusion: Selector,
    /// Where the resources go; back where they came from if there is nothing here.
    pub(super) destination: Option<Destination>,
    pub(super) results_dir: Option<PathBuf>,
    /// One JSON document on standard output instead of lines for people.
    pub(super) json: bool,
    /// The function may write files that no resource was read from.
    pub(super) any_path: bool,
    pub(super) limits: PackageLimits,
    pub(super) runtimes: Runtimes,
    /// What is saved in the folder's Kptfile once the function has run.
    pub(super) save: Option<Save>,
}

/// Where resources come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A folder, free of links.
    Folder(PathBuf),
    /// Standard input.
    Stream,
}

/// An entry for the pipeline of a Kptfile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Save {
    pub(super) folder: PathBuf,
    pub(super) function: Function,
    pub(super) role: Role,
}

/// The part of a pipeline that a function belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Mutator,
    Validator,
}

/// What a plan asks of the machine, and the one thing that it makes there.
pub(super) trait Machine {
    /// Where `-o` leads.
    fn destination(&mut self, output: Option<&str>) -> Result<Option<Destination>, Failure>;
    /// The function config in a file.
    fn read_config(&mut self, file: &Path, limits: Limits) -> Result<Node, Failure>;
    /// The folder itself, free of links, with a warning if the path was one.
    fn resolve_folder(&mut self, path: &Path) -> Result<PathBuf, Failure>;
    /// The file free of links, or as it was written if it cannot be found.
    fn resolve_file(&mut self, file: &Path) -> PathBuf;
    /// Makes the folder for results.
    fn make_results_folder(&mut self, folder: Option<&Path>) -> Result<(), Failure>;
}

// === impl Plan ===

impl Plan {
    /// The order of the checks is interface: of several mistakes users get the first one, and scripts that know kpt
    /// know which that is. It goes from what is cheap to what is not, and each step may rely on those before it:
    ///
    /// 1. flags alone: what is not supported, `--type`;
    /// 2. `-o`, so that a folder in the way is reported before anything about the function;
    /// 3. the function, then the flags and arguments that only some functions take;
    /// 4. the function config, from words or from its file;
    /// 5. the folder, and what must be in it or may not be written without it;
    /// 6. the folder for results, the only thing that is made, when hardly anything can be wrong any more;
    /// 7. the selectors.
    ///
    /// The runtimes come after that, as the first step of carrying the plan out.
    pub(super) fn of(arguments: Eval, machine: &mut dyn Machine) -> Result<Self, Failure> {
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
            allow_any_path: any_path,
            limits,
            selection,
            containers,
            runtimes,
        } = arguments;
        let Containers { image_pull_policy: _, image_prefix, allow_alpha_wasm } = containers;
        refuse_wasm(allow_alpha_wasm)?;
        refuse_meta_resources(include_meta_resources)?;
        let role = role(function_type.as_deref(), save)?;
        let destination = machine.destination(output.as_deref())?;
        let image_prefix = check_prefix(&image_prefix).map_err(|error| error.to_string())?;
        let function = function(image.as_deref(), exec.as_deref(), &image_prefix)?;
        let for_containers = as_current_user || network || !mount.is_empty() || !env.is_empty();
        check_container_flags(&function, for_containers)?;
        let place = only_place(&places)?;
        let Config { data, node: config } = config(&words, fn_config.as_deref(), limits, machine)?;
        let input = match place {
            "-" => Input::Stream,
            place => Input::Folder(machine.resolve_folder(Path::new(place))?),
        };
        let json = runtimes.output_format == Format::Json;
        check_report(json, &input, destination.as_ref())?;
        let config_path = config_path(fn_config.as_deref(), &input, save, machine)?;
        machine.make_results_folder(results_dir.as_deref())?;
        let (selector, exclusion) = selectors(selection)?;
        let save = input.folder().filter(|_| save).map(|folder| Save {
            folder: folder.to_owned(),
            function: Function {
                tag: tag.unwrap_or_default(),
                config_path: config_path.clone().unwrap_or_default(),
                config_map: data,
                selectors: some(&selector),
                exclusions: some(&exclusion),
                ..named(&function)
            },
            role,
        });
        Ok(Self {
            input,
            function,
            config,
            config_path,
            selector,
            exclusion,
            destination,
            results_dir,
            json,
            any_path,
            limits,
            runtimes,
            save,
        })
    }
}

// === impl Input ===

impl Input {
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Stream => None,
        }
    }
}

// === the checks, in their order ===

fn refuse_meta_resources(asked: bool) -> Result<(), Failure> {
    if asked {
        return Err(
            "--include-meta-resources is no longer necessary because meta resources are now included by default".into()
        );
    }
    Ok(())
}

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
            let image = Image::with_prefix(image, Some(prefix));
            check_image(image.name()).map_err(|error| error.to_string())?;
            // From here on the image is known by its whole name, as in kpt.
            Ok(FunctionRef::Image(Image::new(image.name())))
        }
        (None, Some(exec)) => {
            split_words(exec)
                .map_err(|error| format!("exec command {} must be valid: {error}", quote(exec)))?;
            Ok(FunctionRef::Command(exec.into()))
        }
        (None, None) => Err("must specify --image or --exec".into()),
    }
}

fn check_container_flags(function: &FunctionRef, given: bool) -> Result<(), Failure> {
    if given && matches!(function, FunctionRef::Command(_)) {
        return Err(
            "--mount, --as-current-user, --network and --env can only be used with container functions"
                .into(),
        );
    }
    Ok(())
}

fn only_place(places: &[String]) -> Result<&str, Failure> {
    match places {
        [] => Ok("."),
        [place] => Ok(place),
        _ => Err("0 or 1 arguments supported, function arguments go after '--'".into()),
    }
}

/// A function config, and its data if it comes from words.
struct Config {
    data: BTreeMap<String, String>,
    node: Node,
}

fn config(
    words: &[String],
    file: Option<&Path>,
    limits: PackageLimits,
    machine: &mut dyn Machine,
) -> Result<Config, Failure> {
    if !words.is_empty() && file.is_some() {
        return Err("function arguments can only be specified without function config file".into());
    }
    let (data, node) = function_config::of_words(words)?;
    let node = match file {
        Some(file) => machine.read_config(file, limits.read())?,
        None => node,
    };
    Ok(Config { data, node })
}

/// A report and resources cannot share standard output.
fn check_report(json: bool, input: &Input, destination: Option<&Destination>) -> Result<(), Failure> {
    let elsewhere = destination.is_some_and(|destination| !matches!(destination, Destination::Folder(_)));
    if json && (elsewhere || *input == Input::Stream) {
        return Err(
            "--output-format json writes to standard output itself; give a folder, and -o DIR if any".into(),
        );
    }
    Ok(())
}

/// Where the file with the function config is in the folder. A saved function can only name a file in there.
fn config_path(
    file: Option<&Path>,
    input: &Input,
    save: bool,
    machine: &mut dyn Machine,
) -> Result<Option<String>, Failure> {
    let (Some(file), Some(folder)) = (file, input.folder()) else { return Ok(None) };
    match machine.resolve_file(file).strip_prefix(folder) {
        Ok(path) => Ok(Some(path.display().to_string())),
        Err(_) if save => {
            let folder = folder.display();
            let text =
                format!("--fn-config must be under {folder} if saving functions to Kptfile (--save=true)");
            Err(text.into())
        }
        Err(_) => Ok(None),
    }
}

fn selectors(selection: Selection) -> Result<(Selector, Selector), Failure> {
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
    } = selection;
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

fn some(selector: &Selector) -> Vec<Selector> {
    if selector.is_empty() { Vec::new() } else { vec![selector.clone()] }
}

fn named(function: &FunctionRef) -> Function {
    match function {
        FunctionRef::Image(image) => Function { image: image.name().to_owned(), ..Function::default() },
        FunctionRef::Command(exec) => Function { exec: exec.to_string(), ..Function::default() },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, Fn};

    const FOLDER: &str = "/packages/app";

    /// A machine with the folder `app` and two function configs, one in there and one elsewhere.
    #[derive(Default)]
    struct Fake {
        /// What it was asked, in order.
        asked: Vec<&'static str>,
    }

    impl Machine for Fake {
        fn destination(&mut self, output: Option<&str>) -> Result<Option<Destination>, Failure> {
            self.asked.push("destination");
            match output {
                Some("taken") => Err("taken".into()),
                Some("new") => Ok(Some(Destination::Folder("new".into()))),
                other => Destination::parse(other),
            }
        }

        fn read_config(&mut self, file: &Path, _: Limits) -> Result<Node, Failure> {
            self.asked.push("config");
            match file.to_str() {
                Some("missing.yaml") => Err("missing".into()),
                _ => Ok(Node::mapping()),
            }
        }

        fn resolve_folder(&mut self, path: &Path) -> Result<PathBuf, Failure> {
            self.asked.push("folder");
            match path.to_str() {
                Some("app" | ".") => Ok(FOLDER.into()),
                _ => Err("no folder".into()),
            }
        }

        fn resolve_file(&mut self, file: &Path) -> PathBuf {
            self.asked.push("file");
            Path::new("/packages").join(file)
        }

        fn make_results_folder(&mut self, folder: Option<&Path>) -> Result<(), Failure> {
            self.asked.push("results");
            match folder.and_then(Path::to_str) {
                Some("taken") => Err("no results".into()),
                _ => Ok(()),
            }
        }
    }

    fn plan_on(machine: &mut Fake, line: &[&str]) -> Result<Plan, String> {
        let cli = Cli::try_parse_from(["loggia", "fn", "eval"].iter().chain(line)).unwrap();
        let Command::Fn(Fn::Eval(arguments)) = cli.command else { panic!("{line:?}") };
        Plan::of(*arguments, machine).map_err(|failure| failure.text(false))
    }

    fn plan(line: &[&str]) -> Result<Plan, String> {
        plan_on(&mut Fake::default(), line)
    }

    /// A command line in which the first mistakes were put right, and all others are still there.
    fn line(right: usize) -> Vec<&'static str> {
        let mut line = vec!["--exec=cat", "--save"];
        let mut at = 0;
        let mut either = |wrong: &[&'static str], fixed: &[&'static str]| {
            line.extend(if at < right { fixed } else { wrong });
            at += 1;
        };
        either(&["--allow-alpha-wasm"], &[]);
        either(&["--include-meta-resources"], &[]);
        either(&["--type=x"], &["--type=mutator"]);
        either(&["--output=taken"], &["--output=unwrap"]);
        either(&["--image-prefix=https://x"], &["--image-prefix=r.io"]);
        either(&["--image=a b"], &[]);
        either(&["--network"], &[]);
        either(&["another-place"], &[]);
        let words = if right > 8 { &[][..] } else { &["--", "a=b"] };
        either(&[], &[]);
        match right {
            ..=9 => either(&["--fn-config=missing.yaml"], &[]),
            10..=12 => either(&[], &["--fn-config=elsewhere.yaml"]),
            _ => either(&[], &["--fn-config=app/config.yaml"]),
        }
        either(&["nowhere"], &["app"]);
        either(&["--output-format=json"], &[]);
        either(&[], &[]);
        either(&["--results-dir=taken"], &["--results-dir=results"]);
        either(&["--match-labels=foo"], &["--match-labels=foo=bar"]);
        line.extend(words);
        line
    }

    #[test]
    fn of_several_mistakes_the_first_in_the_order_of_the_checks_is_reported() {
        let expected = [
            "--allow-alpha-wasm: functions in WebAssembly are not supported",
            "--include-meta-resources is no longer necessary because",
            "--type must be either `mutator` or `validator`",
            "taken",
            "invalid image prefix",
            "function image reference \"r.io/a b\" is invalid",
            "--mount, --as-current-user, --network and --env can only be used with",
            "0 or 1 arguments supported",
            "function arguments can only be specified without function config file",
            "missing",
            "no folder",
            "--output-format json writes to standard output itself",
            "--fn-config must be under /packages/app if saving",
            "no results",
            "--match-labels must be KEY=VALUE",
        ];
        for (right, text) in expected.iter().enumerate() {
            let failure = plan(&line(right)).unwrap_err();
            assert!(failure.starts_with(&format!("error: {text}")), "{right}: {failure}");
        }
        let mut machine = Fake::default();
        plan_on(&mut machine, &line(expected.len())).unwrap();
        assert_eq!(machine.asked, ["destination", "config", "folder", "file", "results"]);
    }

    #[test]
    fn words_are_checked_before_the_folder_and_after_the_places() {
        let text = |line: &[&str]| plan(line).unwrap_err();
        assert!(text(&["--exec=cat", "a", "b", "--", "a=b", "c"]).contains("0 or 1 arguments"));
        assert!(text(&["--exec=cat", "nowhere", "--", "a=b", "c"]).contains("separated by ="));
    }

    #[test]
    fn a_mistake_in_the_flags_alone_is_found_without_a_look_at_the_machine() {
        let mut machine = Fake::default();
        assert!(plan_on(&mut machine, &line(2)).is_err());
        assert!(machine.asked.is_empty(), "{:?}", machine.asked);
    }

    #[test]
    fn a_plan_has_all_that_is_run_and_saved() {
        let plan = plan(&[
            "app",
            "--image=set-labels:v0.2",
            "--image-prefix=r.io/fns/",
            "-s",
            "--type=validator",
            "--tag=0.2.x",
            "--match-kind=ConfigMap",
            "--exclude-labels=a=b",
            "--",
            "tier=db",
        ])
        .unwrap();
        assert_eq!(plan.input, Input::Folder(FOLDER.into()));
        assert_eq!((plan.destination, plan.json), (None, false));
        let image = "r.io/fns/set-labels:v0.2".to_owned();
        assert!(matches!(&plan.function, FunctionRef::Image(found) if found.name() == image));
        assert_eq!(plan.selector.kind, "ConfigMap");
        assert_eq!(plan.exclusion.labels, BTreeMap::from([("a".into(), "b".into())]));
        let function = Function {
            image,
            tag: "0.2.x".into(),
            config_map: BTreeMap::from([("tier".into(), "db".into())]),
            selectors: vec![plan.selector],
            exclusions: vec![plan.exclusion],
            ..Function::default()
        };
        assert_eq!(plan.save, Some(Save { folder: FOLDER.into(), function, role: Role::Validator }));
    }

    #[test]
    fn a_function_config_in_the_folder_is_known_by_its_path_there() {
        let config = |file: &str| plan(&["app", "--exec=cat", &format!("--fn-config={file}")]);
        assert_eq!(config("app/sub/config.yaml").unwrap().config_path.as_deref(), Some("sub/config.yaml"));
        assert_eq!(config("elsewhere.yaml").unwrap().config_path, None);
        let saved = plan(&["app", "--exec=cat", "-s", "-t=mutator", "--fn-config=app/config.yaml"]).unwrap();
        assert_eq!(saved.save.unwrap().function.config_path, "config.yaml");
    }

    #[test]
    fn a_stream_asks_for_no_folder_and_is_not_saved() {
        let mut machine = Fake::default();
        let plan = plan_on(&mut machine, &["-", "--exec=cat", "-s", "-t=mutator"]).unwrap();
        assert_eq!((plan.input, plan.save), (Input::Stream, None));
        assert_eq!(machine.asked, ["destination", "results"]);
    }

    #[test]
    fn a_report_needs_standard_output_for_itself() {
        let report = |more: &[&str]| plan(&[&["--exec=cat", "--output-format=json"], more].concat()).is_ok();
        assert!(report(&["app"]) && report(&["app", "-o=new"]));
        assert!(!report(&["-"]) && !report(&["-", "-o=new"]) && !report(&["app", "-o=stdout"]));
    }
}
