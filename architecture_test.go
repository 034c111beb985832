package watchdog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/importcheck"
)

const architecture = "docs/architecture.md"

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// placed is a name in quotes and, in parentheses after it, the link to the Go file that declares it.
var placed = regexp.MustCompile("`([\\w.]+)`\\s+\\(\\[[^\\]]+\\]\\(\\.\\./([^)]+\\.go)\\)\\)")

func TestArchitectureNames(t *testing.T) {
	pages, err := filepath.Glob("docs/architecture*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range pages {
		for _, match := range placed.FindAllStringSubmatch(readText(t, page), -1) {
			found++
			name, file := match[1][strings.LastIndex(match[1], ".")+1:], match[2]
			declared := regexp.MustCompile(`(?m)^(?:func |func \(.*?\) |type |\t)` + name + `\b`)
			if !declared.MatchString(readText(t, file)) {
				t.Errorf("%s: %s is not in %s any more: correct the walk", page, match[1], file)
			}
		}
	}
	require.Greater(t, found, 30)
}

// packageComment stands above the package clause, and begins with more than a word.
var packageComment = regexp.MustCompile(`(?m)^// \w+ .+\n(?://.*\n)*package \w`)

// TestArchitecturePackages protects what the page says of packages: each says itself what it is for.
func TestArchitecturePackages(t *testing.T) {
	list, err := importcheck.ReadList(os.DirFS("."))
	require.NoError(t, err)
	for _, name := range list.Packages() {
		folder := name
		if name == "watchdog" {
			folder = "."
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		says := func(file string) bool { return packageComment.MatchString(readText(t, file)) }
		require.True(t, slices.ContainsFunc(files, says), "package %s has no comment that says what it is for", name)
	}
}

// TestArchitectureDrawing protects the states of a run: the page shows them as the comment of the code does.
func TestArchitectureDrawing(t *testing.T) {
	const file = "internal/machine/life.go"
	drawing := drawingAbove(t, file, "type Phase ")
	require.Contains(t, readText(t, architecture), "```text\n"+drawing+"```\n", "copy it from %s", file)
}

// drawingAbove is the indented part of the comment of a declaration.
func drawingAbove(t *testing.T, file, declaration string) (drawing string) {
	t.Helper()
	above, _, found := strings.Cut(readText(t, file), "\n"+declaration)
	require.True(t, found, "%s declares no %s", file, declaration)
	comment := above[strings.LastIndex(above, "\n\n")+1:] + "\n"
	for line := range strings.Lines(comment) {
		if indented, ok := strings.CutPrefix(line, "//\t"); ok {
			drawing += indented
		}
	}
	require.NotEmpty(t, drawing)
	return drawing
}

func TestImports(t *testing.T) {
	problems, err := importcheck.Check(os.DirFS("."))
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

func TestImportsPicture(t *testing.T) {
	const picture = "docs/packages.svg"
	list, err := importcheck.ReadList(os.DirFS("."))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(picture, list.Picture(), 0o644))
	}
	drawn, err := os.ReadFile(picture)
	require.NoError(t, err, "run make golden to draw it")
	if !bytes.Equal(list.Picture(), drawn) {
		t.Errorf("%s does not show %s: run make golden", picture, importcheck.ListFile)
	}
}
