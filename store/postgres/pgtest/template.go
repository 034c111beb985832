package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// A template is a cluster as initdb creates it. The servers of a process are copies, which are made in a tenth of the
// time. The last server that is closed deletes it.
//
// Rejected: one for all processes, in a folder of the user. It would stay there when all is closed.
type template struct {
	folder string
	users  int // servers that are not closed
}

// templates are those in use, by the folder of the programs that made them.
var templates = struct {
	sync.Mutex
	by map[string]*template
}{by: map[string]*template{}}

// createCluster creates the cluster of a server, and the template if there is none.
func (s *Server) createCluster(ctx context.Context) error {
	templates.Lock()
	defer templates.Unlock()
	t := templates.by[s.programs]
	if t == nil {
		t = &template{}
		if err := s.makeTemplate(ctx, t); err != nil {
			return errors.Join(err, os.RemoveAll(t.folder))
		}
		templates.by[s.programs] = t
	}
	t.users++
	s.copied = t
	return s.create(ctx, s.folder, "cp", "-Rp", clusterIn(t.folder), s.data())
}

func (s *Server) makeTemplate(ctx context.Context, t *template) (err error) {
	if t.folder, err = os.MkdirTemp("", "pg"); err != nil {
		return err
	}
	return s.create(ctx, t.folder, filepath.Join(s.programs, "initdb"), "-D", clusterIn(t.folder), "--no-sync",
		"-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale")
}

// leaveTemplate deletes the template of a server if no other one uses it.
func (s *Server) leaveTemplate() error {
	templates.Lock()
	defer templates.Unlock()
	t := s.copied
	if t == nil {
		return nil
	}
	s.copied = nil
	if t.users--; t.users > 0 {
		return nil
	}
	delete(templates.by, s.programs)
	return os.RemoveAll(t.folder)
}

func clusterIn(folder string) string { return filepath.Join(folder, "data") }

// create has a program create a cluster in a folder.
func (s *Server) create(ctx context.Context, folder, program string, arguments ...string) error {
	if err := s.as.own(folder); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Dir, cmd.SysProcAttr = folder, s.as.attributes()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, output)
	}
	return nil
}
