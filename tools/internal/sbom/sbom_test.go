package sbom_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"

	"github.com/seed62658d38/watchdog/tools/internal/sbom"
)

// folders returns where the license files are.
func folders(t *testing.T) sbom.Folders {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	require.NoError(t, err)
	lines := strings.Split(string(out), "\n")
	return sbom.Folders{Cache: lines[0], Goroot: lines[1], Checkout: "../../.."}
}

// program builds the command, for a test program does not know its modules.
func program(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "sbom")
	out, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "../../sbom").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func TestModules(t *testing.T) {
	modules, err := sbom.Modules(program(t), folders(t))
	require.NoError(t, err)
	licenses := map[string][]string{}
	for _, m := range modules {
		require.NotEmpty(t, m.Version, m.Path)
		for _, license := range m.Licenses {
			require.NotEmpty(t, license.Text)
			licenses[m.Path] = append(licenses[m.Path], license.IDs...)
		}
	}
	require.Equal(t, "github.com/seed62658d38/watchdog/tools", modules[0].Path)
	require.Equal(t, "std", modules[len(modules)-1].Path)
	require.Equal(t, []string{"MIT"}, licenses[modules[0].Path])
	require.Equal(t, []string{"BSD-3-Clause"}, licenses["github.com/google/licensecheck"])
	require.Equal(t, []string{"BSD-3-Clause"}, licenses["golang.org/x/mod"])
	require.Equal(t, []string{"BSD-3-Clause"}, licenses["std"])
}

// A module cache that holds one module whose license nobody knows, and lacks all others.
func TestUnknownLicense(t *testing.T) {
	at := folders(t)
	at.Cache = t.TempDir()
	path, err := module.EscapePath("github.com/google/licensecheck")
	require.NoError(t, err)
	built := program(t)
	modules, err := sbom.Modules(built, folders(t))
	require.NoError(t, err)
	for _, m := range modules {
		if m.Path == "github.com/google/licensecheck" {
			dir := filepath.Join(at.Cache, path+"@"+m.Version)
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("Ask my lawyer."), 0o600))
		}
	}
	_, err = sbom.Modules(built, at)
	require.ErrorContains(t, err, "github.com/google/licensecheck: no license that is known in "+at.Cache)
	require.ErrorContains(t, err, "golang.org/x/mod: open "+at.Cache)
	require.ErrorContains(t, err, "`go mod download` brings it")

	_, err = sbom.Modules("sbom_test.go", at)
	require.ErrorContains(t, err, "read the build information of sbom_test.go")
}

func TestWrite(t *testing.T) {
	modules, err := sbom.Modules(program(t), folders(t))
	require.NoError(t, err)
	write := func() string {
		var text bytes.Buffer
		require.NoError(t, sbom.WriteSPDX(&text, "sbom", "1f", modules, time.Unix(0, 0)))
		return text.String()
	}
	text := write()
	require.Equal(t, text, write())
	document, err := spdxjson.Read(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, "https://github.com/seed62658d38/watchdog/tools/spdx/1f", document.DocumentNamespace)
	require.Len(t, document.Packages, len(modules))
	require.Len(t, document.Relationships, len(modules))
	for i, p := range document.Packages {
		require.Equal(t, modules[i].Path, p.PackageName)
		require.NotEmpty(t, p.PackageLicenseDeclared)
		require.NotContains(t, p.PackageExternalReferences[0].Locator, "(devel)")
	}

	var texts strings.Builder
	require.NoError(t, sbom.WriteLicenses(&texts, modules))
	for _, m := range modules {
		require.Contains(t, texts.String(), "== "+m.Path+" "+m.Version+": ")
	}
}
