// Package early begins to start the guard of a run before most of the program is initialized: the guard, which is the
// program once more, starts meanwhile. Go initializes packages in the order of their import paths, as far as they do
// not need each other, and this package needs little.
//
// It has no functions: import it for its initializer.
package early

import (
	"os"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		proctree.Prepare()
	}
}
