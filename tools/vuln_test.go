package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The database in testdata says that strings.ToTitle is vulnerable.
func TestVuln(t *testing.T) {
	database, err := filepath.Abs("testdata/vulndb")
	require.NoError(t, err)
	t.Setenv("GOWORK", "off") // the module stands in no workspace
	module := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(module, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/module\n\ngo 1.25.0\n")
	search := func(called string) (string, error) {
		write("title.go", "package module\n\nimport \"strings\"\n\nfunc Title(s string) string { return strings."+called+"(s) }\n")
		out, err := exec.Command("make", "-C", "..", "vuln",
			"VULNDB=file://"+database, "modules="+module, "outside=").CombinedOutput()
		return string(out), err
	}
	out, err := search("ToTitle")
	require.Error(t, err, "%s", out)
	require.Contains(t, out, "Vulnerability #1: GO-1999-0001")
	require.Contains(t, out, "module.Title calls strings.ToTitle")

	out, err = search("ToUpper")
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, "No vulnerabilities found.")
}
