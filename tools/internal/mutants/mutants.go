// Package mutants draws mutants of a package from the list that gremlins makes of it, and runs tests against each. A
// mutant is a copy of one file in which one operator is another. The go command builds it as an overlay, so that the
// checkout stays as it is and any tests can be run, not those of the package alone.
//
// It makes no list of its own, and does not judge whether a mutant that lives says the same as the original.
package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Mutant is one operator of a file that is replaced.
type Mutant struct {
	File         string // beside the package's other files
	Line, Column int    // of the operator; a column counts bytes from 1
	Kind         string // as gremlins names it
}

func (m Mutant) String() string { return fmt.Sprintf("%s:%d:%d %s", m.File, m.Line, m.Column, m.Kind) }

// List returns the mutants that gremlins finds in a package, by file and place, without those of files that are not
// built here.
func List(ctx context.Context, gremlins, folder string) ([]Mutant, error) {
	report := filepath.Join(os.TempDir(), fmt.Sprintf("mutants-%d.json", os.Getpid()))
	defer func() { _ = os.Remove(report) }()
	place, err := filepath.Abs(folder) // from "." it does not find the module
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, gremlins, "unleash", "--dry-run", "--silent", "--output", report, place)
	cmd.Dir = place
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gremlins in %s: %w\n%s", folder, err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var list struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type         string
				Line, Column int
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the report of gremlins: %w", err)
	}
	built, err := builtIn(ctx, folder)
	if err != nil {
		return nil, err
	}
	var mutants []Mutant
	for _, file := range list.Files {
		if !slices.Contains(built, file.Name) {
			continue
		}
		for _, m := range file.Mutations {
			mutants = append(mutants, Mutant{File: file.Name, Line: m.Line, Column: m.Column, Kind: m.Type})
		}
	}
	slices.SortFunc(mutants, func(a, b Mutant) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Kind, b.Kind))
	})
	return mutants, nil
}

// builtIn returns the names of the Go files of a package that are built here, without its tests.
func builtIn(ctx context.Context, folder string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", `{{join .GoFiles "\n"}}`, ".")
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", folder, err)
	}
	return strings.Fields(string(out)), nil
}

// Draw returns n of the mutants in their order, the same ones for the same seed, or all of them if n is not less.
func Draw(mutants []Mutant, n int, seed uint64) []Mutant {
	if n >= len(mutants) {
		return mutants
	}
	places := rand.New(rand.NewPCG(seed, 0)).Perm(len(mutants))[:n]
	slices.Sort(places)
	drawn := make([]Mutant, n)
	for i, place := range places {
		drawn[i] = mutants[place]
	}
	return drawn
}

// Operators and what each becomes, by the kind of a mutant.
var replacements = map[string]map[string]string{
	"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"CONDITIONALS_BOUNDARY": {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", ">=": "<", ">": "<=", "<=": ">", "<": ">="},
	"INCREMENT_DECREMENT":   {"++": "--", "--": "++"},
	"INVERT_NEGATIVES":      {"-": "+"},
}

// apply returns the text of a mutant.
func apply(m Mutant, text []byte) ([]byte, error) {
	at := 0
	for range m.Line - 1 {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	at += m.Column - 1
	for length := 2; length > 0; length-- { // ">=" before ">"
		if end := at + length; end <= len(text) {
			if other, ok := replacements[m.Kind][string(text[at:end])]; ok {
				return slices.Concat(text[:at], []byte(other), text[end:]), nil
			}
		}
	}
	return nil, fmt.Errorf("%v: no operator of this kind stands there", m)
}

// A Fate is what became of a mutant.
type Fate string

// What Run returns.
const (
	Killed    Fate = "killed"
	Lived     Fate = "lived"
	TimedOut  Fate = "timed out"  // lived, for nothing said that it is wrong
	NotViable Fate = "not viable" // does not compile
)

// Run tests a mutant of the package in folder with the packages in tests, patterns of the go command, one after the
// other until one says that the mutant does not live.
func Run(ctx context.Context, m Mutant, folder string, tests []string, timeout time.Duration) (Fate, error) {
	original, err := filepath.Abs(filepath.Join(folder, m.File))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if text, err = apply(m, text); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	mutated, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(mutated, text, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	for _, pattern := range tests {
		if fate, err := test(ctx, folder, overlay, pattern, timeout); err != nil || fate != Lived {
			return fate, err
		}
	}
	return Lived, nil
}

func test(ctx context.Context, folder, overlay, pattern string, timeout time.Duration) (Fate, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout) // longer than Go waits, which then prints what has failed before
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-count=1", "-timeout", timeout.String(),
		"-overlay", overlay, pattern)
	cmd.Dir = folder
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch exited := new(exec.ExitError); {
	case err == nil:
		return Lived, nil
	case bytes.Contains(out, []byte("--- FAIL: ")):
		return Killed, nil // an example that ran after the test may not have ended
	case ctx.Err() != nil, bytes.Contains(out, []byte("panic: test timed out after ")):
		return TimedOut, nil
	case bytes.Contains(out, []byte("[build failed]")):
		return NotViable, nil
	case errors.As(err, &exited):
		return Killed, nil
	}
	return "", fmt.Errorf("%w\n%s", err, out)
}

// Hunt runs the mutants, writes the fate of each to w, and then the share that was killed of those that compile.
func Hunt(ctx context.Context, w io.Writer, ms []Mutant, folder string, tests []string, timeout time.Duration) error {
	count := map[Fate]int{}
	for _, m := range ms {
		fate, err := Run(ctx, m, folder, tests, timeout)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		count[fate]++
		if _, err := fmt.Fprintf(w, "%-10s %v\n", fate, m); err != nil {
			return err
		}
	}
	viable := len(ms) - count[NotViable]
	_, err := fmt.Fprintf(w, "%s: %d of %d killed, %d lived, %d timed out, %d not viable\n",
		folder, count[Killed], viable, count[Lived], count[TimedOut], count[NotViable])
	return err
}
