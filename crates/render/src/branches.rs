//! The packages of a breadth-first render, and whose resources are whose.

use std::collections::HashMap;

use loggia_krm::Resource;
use loggia_krm::kptfile::Kptfile;

/// A package that takes part in a breadth-first render.
pub(crate) struct Node {
    pub(crate) folder: String,
    pub(crate) unique_path: String,
    pub(crate) kptfile: Kptfile,
    pub(crate) resources: Vec<Resource>,
}

/// The packages of a breadth-first render, in the order in which they run.
pub(crate) struct Branches {
    pub(crate) nodes: Vec<Node>,
    /// The nodes branch by branch: a package is followed by all that are inside it.
    order: Vec<usize>,
    /// Where each node is in `order`.
    ranks: Vec<usize>,
    /// The nodes by the absolute paths of their packages.
    owners: HashMap<String, usize>,
}

// === impl Branches ===

impl Branches {
    pub(crate) fn of(nodes: Vec<Node>) -> Self {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by(|a, b| nodes[*a].folder.split('/').cmp(nodes[*b].folder.split('/')));
        let mut ranks = vec![0; nodes.len()];
        for (rank, at) in order.iter().enumerate() {
            ranks[*at] = rank;
        }
        let owners = nodes.iter().enumerate().map(|(at, node)| (node.unique_path.clone(), at)).collect();
        Self { nodes, order, ranks, owners }
    }

    /// A package and all packages inside it.
    fn branch(&self, at: usize) -> impl Iterator<Item = usize> {
        let folder = &self.nodes[at].folder;
        let from = self.order[self.ranks[at]..].iter().copied();
        from.take_while(move |at| is_below(&self.nodes[*at].folder, folder))
    }

    /// The resources of a package and of all packages below it, branch by branch.
    pub(crate) fn below(&self, at: usize) -> Vec<Resource> {
        self.branch(at).flat_map(|at| self.nodes[at].resources.iter().cloned()).collect()
    }

    /// Gives every package below the one that ran what is its own now.
    pub(crate) fn deal(&mut self, at: usize, output: Vec<Resource>) {
        for below in self.branch(at).collect::<Vec<_>>() {
            self.nodes[below].resources.clear();
        }
        for resource in output {
            let owner = self.owners.get(resource.package_path()).copied().unwrap_or(at);
            self.nodes[owner].resources.push(resource);
        }
    }

    pub(crate) fn into_resources(self) -> Vec<Resource> {
        self.nodes.into_iter().flat_map(|node| node.resources).collect()
    }
}

fn is_below(folder: &str, ancestor: &str) -> bool {
    ancestor.is_empty()
        || folder.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
