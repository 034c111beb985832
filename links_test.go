package watchdog_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinks counts the packages that a host links with one of ours, the standard library included. If it fails, see
// with `go list -deps` what is new. If a new version of Go brought it, raise the figure. If only some hosts need it, as
// they do net/http, put what imports it behind an interface or into a package of its own, such as watchdoghttp.
func TestLinks(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command:", err)
	}
	for pkg, most := range map[string]int{".": 150, "./stall": 162, "./converge": 151} { // with Go 1.26: 141, 153, 142
		t.Run(pkg, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
			require.NoError(t, err)
			linked := strings.Fields(string(out))
			require.NotContains(t, linked, "net/http")
			require.NotContains(t, linked, "net")
			require.LessOrEqual(t, len(linked), most, "the comment of this test says what to do; linked are %q", linked)
		})
	}
}

// TestLinksOneModule protects what the README says of the cost: the library links one package of others, and go.mod
// requires no more than that and two for tests, at the versions that the README names.
func TestLinksOneModule(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command:", err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...").Output()
	require.NoError(t, err)
	var foreign []string
	for pkg := range strings.FieldsSeq(string(out)) {
		if pkg != "github.com/seed62658d38/watchdog" && !strings.HasPrefix(pkg, "github.com/seed62658d38/watchdog/") {
			foreign = append(foreign, pkg)
		}
	}
	require.Equal(t, []string{"github.com/benbjohnson/clock"}, foreign)

	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	guide, err := os.ReadFile("docs/cost.md")
	require.NoError(t, err)
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`).FindAllStringSubmatch(string(mod), -1) // no indirect ones
	require.Len(t, required, 3)
	for _, module := range required {
		if !strings.Contains(string(guide), "`"+module[1]+"` "+module[2]) {
			t.Errorf("docs/cost.md does not say that go.mod requires %s %s", module[1], module[2])
		}
	}
}
