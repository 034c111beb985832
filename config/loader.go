package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/seed62658d38/watchdog"
)

// Load reads the limits from the YAML file at path and then from the environment, which overrides the file. An empty
// path means no file. Load reports the errors together, each as an [*Error], those of the file first, in the order of
// its lines; after twenty it only counts them. If it cannot read the file it wraps the error of the operating system,
// such as [os.ErrNotExist]. With an error it returns no Config. A [Loader] has more choices.
func Load(path string, environment Lookup) (*Config, error) {
	return Loader{LookupEnv: environment}.Load(path)
}

// Parse is [Load] for a text in memory; name is the name of the file in errors and sources.
func Parse(name string, text []byte, environment Lookup) (*Config, error) {
	return Loader{LookupEnv: environment}.Parse(name, text)
}

// A Loader is [Load] and [Parse] for a host with names of its own. The zero value reads as they do with a nil Lookup.
type Loader struct {
	// Prefix begins the name of every variable, such as OUROBOROS_. Empty means WATCHDOG_. Variables with another
	// prefix are not read.
	Prefix string
	// Environment lists the variables, as [os.Environ] does. Nil means those of the process. A variable that is not
	// one of ours but close to one is an error.
	Environment []string
	// LookupEnv finds the variables in place of Environment. It cannot list them, so a misspelt one goes unseen.
	LookupEnv Lookup
	// HostBlocks names blocks of the file that only the host reads, such as steps or watchdog. They are not searched
	// for what was meant to be ours.
	HostBlocks []string
}

// Load is the function [Load] with the Loader's names. It wraps [watchdog.ErrInvalid] if a field is wrong.
func (l Loader) Load(path string) (*Config, error) {
	if path == "" {
		return l.Parse("", nil)
	}
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("load limits: %w", err)
	}
	return l.Parse(path, text)
}

// Parse is the function [Parse] with the Loader's names. It wraps [watchdog.ErrInvalid] if a field is wrong.
func (l Loader) Parse(name string, text []byte) (*Config, error) {
	if problem := l.problem(); problem != "" {
		return nil, fmt.Errorf("load limits: %w: %s", watchdog.ErrInvalid, problem)
	}
	c := &Config{prefix: l.Prefix, sources: map[string]source{}}
	faults := append(c.readText(name, text, l.HostBlocks), c.readEnvironment(l.environment())...)
	if len(faults) == 0 {
		faults = c.check()
	}
	if len(faults) > 0 {
		return nil, join(faults)
	}
	c.adoptStall()
	if !keys.key(stalledPath).off(c) {
		c.Keeper.Threshold = c.Sweep.StalledThreshold
	}
	if c.Disabled {
		c.Stall.Disabled, c.Sweep.Disabled = true, true
		c.sources[enabledPath] = c.sources[disabledPath]
	}
	return c, nil
}

// prefixOfVariables requires the underscore: without it, the first word of a variable would begin in the prefix.
var prefixOfVariables = formOf(`^[A-Za-z][A-Za-z0-9_]*_$`)

func (l Loader) problem() string {
	problems := []when{
		{l.Prefix != "" && !prefixOfVariables().MatchString(l.Prefix), "Prefix " + shown(l.Prefix, maxShown) +
			" is not letters, digits and underscores with an underscore at the end"},
		{l.LookupEnv != nil && l.Environment != nil, "LookupEnv and Environment are both set; set one"},
	}
	for _, block := range l.HostBlocks {
		ours := slices.Contains(blockNames, block)
		problems = append(problems, when{ours, "HostBlocks has " + block + ", which is read here"})
	}
	return first(problems)
}

func (l Loader) environment() environment {
	switch {
	case l.LookupEnv != nil:
		return environment{lookup: l.LookupEnv}
	case l.Environment == nil:
		return environment{os.LookupEnv, listed(os.Environ()).names}
	}
	return listed(l.Environment)
}

// maxText limits what is read. No file of limits is larger.
const maxText = 1 << 20

func readFile(path string) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, maxText+1))
}

// readText reads the settings of a YAML text and returns its errors in the order of the lines.
func (c *Config) readText(name string, text []byte, hostBlocks []string) []*Error {
	c.workflow.index = map[string]int{}
	f := &file{name: name, config: c, hostBlocks: hostBlocks, stalls: map[stallPlace]int{}}
	if f.readable(text) {
		f.read(text)
	}
	slices.SortStableFunc(f.faults, func(a, b *Error) int { return a.Line - b.Line })
	return f.faults
}

// A file is one text while it is parsed.
type file struct {
	name       string
	config     *Config
	hostBlocks []string
	stalls     map[stallPlace]int // see lineOfStall
	faults     []*Error
}

func (f *file) fault(line int, path, problem string) {
	f.faults = append(f.faults, &Error{File: f.name, Line: line, Key: path, Problem: problem})
}

func (f *file) readable(text []byte) bool {
	if len(text) > maxText {
		f.fault(0, "", "is larger than 1 MiB; this is not a file of limits")
		return false
	}
	line := 1
	for part := range bytes.Lines(text) {
		if problem := badText(part); problem != "" {
			f.fault(line, "", problem)
			return false
		}
		line++
	}
	return true
}

// badText returns what a line has that YAML does not allow. The parser's own error has no line.
func badText(line []byte) string {
	if !utf8.Valid(line) {
		return "is not UTF-8 text; save the file as UTF-8"
	}
	for _, r := range string(line) {
		if r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == '\ufffe' || r == '\uffff' {
			return fmt.Sprintf("has the control character %U; remove it", r)
		}
	}
	return ""
}

// read parses the text into nodes, not structs: the nodes have line numbers and hide no duplicate or unknown key.
func (f *file) read(text []byte) {
	var documents []yaml.Node
	if err := yaml.Load(text, &documents, yaml.WithAllDocuments()); err != nil {
		f.parserError(err)
		return
	}
	switch len(documents) {
	case 0:
	case 1:
		f.document(documents[0].Content[0])
	default:
		f.fault(documents[1].Line, "", "a second document begins; allowed: one document in a file")
	}
}

func (f *file) parserError(err error) {
	fault := &Error{File: f.name, Problem: "broken YAML: " + shown(err.Error(), maxReason), Err: err}
	f.faults = append(f.faults, fault)
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		return
	}
	fault.Line, fault.Problem = at.Mark.Line, "broken YAML: "+shown(at.Message, maxReason)
	if strings.HasPrefix(at.Message, "unknown anchor ") {
		fault.Problem = "broken YAML: an alias of an unknown anchor; write a text that begins with * in quotes"
		fault.Err = nil // it has the name, which may be a secret argument
		return
	}
	if at.ContextMsg != "" && at.ContextMark.Line != at.Mark.Line {
		fault.Problem += fmt.Sprintf(" %s that began in line %d", at.ContextMsg, at.ContextMark.Line)
	}
}

// document reads our blocks, and checks the others for what was meant to be ours.
func (f *file) document(root *yaml.Node) {
	if isNull(root) {
		return
	}
	if root.Kind != yaml.MappingNode {
		f.fault(root.Line, "", mask(root)+" is not a mapping; allowed: blocks such as "+controlsBlock+":")
		return
	}
	for key, content := range pairs(root) {
		f.foreign(key, content)
	}
	for _, name := range blockNames {
		f.topLevel(name, root)
	}
}

// topLevel finds one block and reads it. Then the other keys are checked for what was meant to be in it.
func (f *file) topLevel(name string, root *yaml.Node) {
	r := f.reader(slices.Concat(keys, unusedKeys), name, name, f.config)
	line := 0
	for key, content := range pairs(root) {
		switch {
		case nameOf(key) != name:
		case line > 0:
			r.fault(name, key.Line, content, fmt.Sprintf("is a second block; the first is in line %d; write one", line))
		default:
			line = key.Line
			r.block(name, content.Line, content)
			f.dedented(name, content, root)
		}
	}
	if line == 0 {
		f.missing(name, root)
	}
}
