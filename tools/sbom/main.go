// Sbom writes what a Go program is linked from, beside the program: PROGRAM.spdx.json, a document of SPDX 2.3, and
// PROGRAM.licenses.txt, the licenses of all of it. The Makefile calls it:
//
//	go run ./sbom -root .. -created 2026-11-27T12:00:00Z ../bin/watchdog
//
// It reads the program's build information and the module cache, and fails if the license of a module is not known.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/tools/internal/sbom"
)

func main() {
	root := flag.String("root", ".", "the checkout")
	created := flag.String("created", "", "the time that the document says it is of, in RFC 3339; that of the commit")
	flag.Parse()
	if err := run(*root, *created, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(root, created, program string) error {
	at, err := time.Parse(time.RFC3339, created)
	if err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	bytes, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	env, err := exec.CommandContext(context.Background(), "go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	paths := strings.Split(strings.TrimSpace(string(env)), "\n")
	modules, err := sbom.Modules(program, sbom.Folders{Cache: paths[0], Goroot: paths[1], Checkout: root})
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(bytes))
	return errors.Join(
		write(program+".spdx.json", func(w io.Writer) error {
			return sbom.WriteSPDX(w, filepath.Base(program), digest, modules, at)
		}),
		write(program+".licenses.txt", func(w io.Writer) error { return sbom.WriteLicenses(w, modules) }),
	)
}

func write(path string, content func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(content(file), file.Close())
}
