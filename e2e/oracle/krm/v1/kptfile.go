// Package v1 has the shape of a Kptfile, so that go-yaml's strict decoder names types as users of kpt know them.
package v1

import "sigs.k8s.io/kustomize/kyaml/yaml"

type (
	OriginType         string
	UpdateStrategyType string
	ConditionStatus    string
	stringMap          = map[string]string
)

type KptFile struct {
	yaml.ResourceMeta `yaml:",inline"`

	Upstream     *Upstream    `yaml:"upstream,omitempty"`
	UpstreamLock *Locator     `yaml:"upstreamLock,omitempty"`
	Info         *PackageInfo `yaml:"info,omitempty"`
	Pipeline     *Pipeline    `yaml:"pipeline,omitempty"`
	Inventory    *Inventory   `yaml:"inventory,omitempty"`
	Status       *Status      `yaml:"status,omitempty"`
}

type Upstream struct {
	Type           OriginType         `yaml:"type,omitempty"`
	Git            *Git               `yaml:"git,omitempty"`
	UpdateStrategy UpdateStrategyType `yaml:"updateStrategy,omitempty"`
}

type Git struct {
	Repo      string `yaml:"repo,omitempty"`
	Directory string `yaml:"directory,omitempty"`
	Ref       string `yaml:"ref,omitempty"`
}

type Locator struct {
	Type    OriginType   `yaml:"type,omitempty"`
	Git     *GitLock     `yaml:"git,omitempty"`
	Generic *GenericLock `yaml:"generic,omitempty"`
}

type GitLock struct {
	Repo      string `yaml:"repo,omitempty"`
	Directory string `yaml:"directory,omitempty"`
	Ref       string `yaml:"ref,omitempty"`
	Commit    string `yaml:"commit,omitempty"`
}

type GenericLock struct {
	StoreID         string `yaml:"storeID,omitempty"`
	ResourceID      string `yaml:"resourceID,omitempty"`
	ResourceVersion string `yaml:"resourceVersion,omitempty"`
}

type PackageInfo struct {
	Site           string          `yaml:"site,omitempty"`
	Emails         []string        `yaml:"emails,omitempty"`
	License        string          `yaml:"license,omitempty"`
	LicenseFile    string          `yaml:"licenseFile,omitempty"`
	Description    string          `yaml:"description,omitempty"`
	Keywords       []string        `yaml:"keywords,omitempty"`
	Man            string          `yaml:"man,omitempty"`
	ReadinessGates []ReadinessGate `yaml:"readinessGates,omitempty"`
}

type ReadinessGate struct {
	ConditionType string `yaml:"conditionType"`
}

type Pipeline struct {
	Mutators   []Function `yaml:"mutators,omitempty"`
	Validators []Function `yaml:"validators,omitempty"`
}

type Function struct {
	Image      string     `yaml:"image,omitempty"`
	Exec       string     `yaml:"exec,omitempty"`
	ConfigPath string     `yaml:"configPath,omitempty"`
	ConfigMap  stringMap  `yaml:"configMap,omitempty"`
	Name       string     `yaml:"name,omitempty"`
	Tag        string     `yaml:"tag,omitempty"`
	Selectors  []Selector `yaml:"selectors,omitempty"`
	Exclusions []Selector `yaml:"exclude,omitempty"`
}

type Selector struct {
	APIVersion  string    `yaml:"apiVersion,omitempty"`
	Kind        string    `yaml:"kind,omitempty"`
	Name        string    `yaml:"name,omitempty"`
	Namespace   string    `yaml:"namespace,omitempty"`
	Labels      stringMap `yaml:"labels,omitempty"`
	Annotations stringMap `yaml:"annotations,omitempty"`
}

type Inventory struct {
	Namespace   string    `yaml:"namespace,omitempty"`
	Name        string    `yaml:"name,omitempty"`
	InventoryID string    `yaml:"inventoryID,omitempty"`
	Labels      stringMap `yaml:"labels,omitempty"`
	Annotations stringMap `yaml:"annotations,omitempty"`
}

type Status struct {
	Conditions   []Condition   `yaml:"conditions,omitempty"`
	RenderStatus *RenderStatus `yaml:"renderStatus,omitempty"`
}

type Condition struct {
	Type    string          `yaml:"type"`
	Status  ConditionStatus `yaml:"status"`
	Reason  string          `yaml:"reason,omitempty"`
	Message string          `yaml:"message,omitempty"`
}

type RenderStatus struct {
	MutationSteps   []PipelineStepResult `yaml:"mutationSteps,omitempty"`
	ValidationSteps []PipelineStepResult `yaml:"validationSteps,omitempty"`
	ErrorSummary    string               `yaml:"errorSummary,omitempty"`
}

type PipelineStepResult struct {
	Name           string       `yaml:"name,omitempty"`
	Image          string       `yaml:"image,omitempty"`
	Exec           string       `yaml:"exec,omitempty"`
	ExecutionError string       `yaml:"executionError,omitempty"`
	Stderr         string       `yaml:"stderr,omitempty"`
	ExitCode       int          `yaml:"exitCode"`
	Results        []ResultItem `yaml:"results,omitempty"`
	ErrorResults   []ResultItem `yaml:"errorResults,omitempty"`
}

type ResultItem struct {
	Message     string       `yaml:"message,omitempty"`
	Severity    string       `yaml:"severity,omitempty"`
	ResourceRef *ResourceRef `yaml:"resourceRef,omitempty"`
	Field       *FieldRef    `yaml:"field,omitempty"`
	File        *FileRef     `yaml:"file,omitempty"`
	Tags        stringMap    `yaml:"tags,omitempty"`
}

type ResourceRef struct {
	APIVersion string `yaml:"apiVersion,omitempty"`
	Kind       string `yaml:"kind,omitempty"`
	Name       string `yaml:"name,omitempty"`
	Namespace  string `yaml:"namespace,omitempty"`
}

type FieldRef struct {
	Path          string `yaml:"path,omitempty"`
	CurrentValue  string `yaml:"currentValue,omitempty"`
	ProposedValue string `yaml:"proposedValue,omitempty"`
}

type FileRef struct {
	Path  string `yaml:"path,omitempty"`
	Index int    `yaml:"index,omitempty"`
}
