package release

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
)

// No go.sum of the repository has sums of the modules beside it: these change with every commit until the version is
// tagged, and users of a module do not read its go.sum. The go command needs them in the copy, where they are added.

// withoutOwn returns the text of a go.sum without the sums of the modules of this repository.
func (m *Modules) withoutOwn(sums []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(sums) {
		path, _, _ := strings.Cut(string(line), " ")
		if m.named(path) == nil {
			kept = append(kept, line...)
		}
	}
	return kept
}

// dropOwnSums removes the sums of the modules of this repository from a go.sum. It deletes a go.sum with no others.
func (m *Modules) dropOwnSums(name string) error {
	sums, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := m.withoutOwn(sums)
	if len(kept) == 0 && len(sums) > 0 {
		return os.Remove(name)
	}
	return os.WriteFile(name, kept, 0o644)
}

// addSums appends lines to a go.sum, and creates it if it is missing.
func addSums(name string, lines []string) error {
	sums, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(name, slices.Concat(sums, []byte(strings.Join(lines, ""))), 0o644)
}

// sumLines returns the two lines of a go.sum for a module with this zip and this go.mod.
func sumLines(path, version, zipFile, modFile string) ([]string, error) {
	zipSum, err := dirhash.HashZip(zipFile, dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(modFile) })
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("%s %s %s\n", path, version, zipSum),
		fmt.Sprintf("%s %s/go.mod %s\n", path, version, modSum),
	}, nil
}
