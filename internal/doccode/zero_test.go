package doccode_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccode"
)

func TestZero(t *testing.T) {
	tree := fstest.MapFS{
		"pkg/config.go": {Data: []byte(`package pkg

// A Config is one. The zero value of each is off.
type Config struct {
	// Limit is a limit, at most 1.5 hours. Zero means [DefaultLimit], [watchdog.NoLimit] none, see [Config].Other.
	Limit time.Duration
	// Other and Count are counted.
	Other int
	Count int64
	hidden int
	// Name is no measure.
	Name string
}

type (
	// Bare says nothing.
	Bare struct{ Least int }
	// An OtherConfig is not listed.
	OtherConfig struct{}
)

// A Result is none of the host's.
type Result struct{ Length time.Duration }
`)},
		"pkg/config_test.go": {Data: []byte("package pkg\n\ntype TestConfig struct{}\n")},
		"root.go": {Data: []byte(`package root

// A Run has a start. Zero is now.
type Run struct{ At time.Time }
`)},
	}
	table, problems := load(t, tree).Zero([]doccode.Settings{
		{Package: "pkg", Types: []string{"Config", "Bare", "Gone"}}, {Package: ".", Types: []string{"Run"}},
	})
	require.Equal(t, []string{
		"the comment of pkg.Bare.Least does not say what zero means", "there is no struct pkg.Gone",
		"pkg.OtherConfig is not among the settings",
	}, problems)
	require.Equal(t, ""+
		"| `pkg.Config.Limit` | Zero means `pkg.DefaultLimit`, `watchdog.NoLimit` none, see `pkg.Config.Other`. |\n"+
		"| `pkg.Config.Other`, `Count` | The zero value of each is off. |\n"+
		"| `pkg.Bare.Least` |  |\n"+
		"| `watchdog.Run.At` | Zero is now. |\n", table)
}
