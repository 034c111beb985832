package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// StandbyOptions are the options of a standby. The zero value is an asynchronous standby.
type StandbyOptions struct {
	Options
	// Synchronous makes the primary acknowledge a commit only when the standby has it on disk.
	Synchronous bool
}

// A Standby is a server that follows a primary, which is also a server of this package, and answers reads. Once it is
// promoted it is a primary. Closing it leaves the primary as it is; a primary whose synchronous standby is closed
// acknowledges no more commits. Of its methods only DSN and Database are safe for concurrent use.
type Standby struct {
	*Server
	primary *Server
	name    string // in the primary's list of standbys
}

// StartStandby starts a standby of a server that runs, and closes it when the test ends. It skips the test if
// pg_basebackup is not installed.
func StartStandby(tb testing.TB, primary *Server, options StandbyOptions) *Standby {
	tb.Helper()
	s, err := NewStandby(tb.Context(), primary, options)
	needs(tb, "pg_basebackup", err)
	atEnd(tb, s.Close)
	return s
}

// NewStandby copies a server that runs, starts the copy as its standby, and returns when the copy follows. The error
// wraps [ErrNotInstalled] if pg_basebackup is missing. The context applies to the start only. The caller must close the
// standby. A primary has at most one standby that is synchronous: the latest.
func NewStandby(ctx context.Context, primary *Server, options StandbyOptions) (_ *Standby, err error) {
	s := &Standby{Server: &Server{programs: primary.programs, as: primary.as}, primary: primary}
	copier, err := s.copier()
	if err != nil {
		return nil, err
	}
	// It would wait for 5 s before it asks again for a primary that is away.
	options.Settings = append([]string{"wal_retrieve_retry_interval=100ms"}, options.Settings...)
	err = s.start(options.Options, func() error { return s.copyPrimary(ctx, copier) })
	if err == nil && options.Synchronous {
		err = primary.alter(ctx, "synchronous_standby_names", `"`+s.name+`"`)
	}
	if err == nil {
		err = s.untilState(ctx, options.Synchronous)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// copier returns the program that copies a server. It is beside the server's own program, or beside what that links to.
func (s *Server) copier() (program string, err error) {
	const name = "pg_basebackup"
	folders := []string{s.programs}
	if linked, err := filepath.EvalSymlinks(filepath.Join(s.programs, "postgres")); err == nil {
		folders = append(folders, filepath.Dir(linked))
	}
	for _, folder := range folders {
		if program := filepath.Join(folder, name); isProgram(program) {
			return program, nil
		}
	}
	return "", fmt.Errorf("%w: %s is not in %s", ErrNotInstalled, name, strings.Join(folders, " or "))
}

// copyPrimary makes the cluster from the primary's, as one that follows it.
func (s *Standby) copyPrimary(ctx context.Context, copier string) error {
	s.name = filepath.Base(s.folder)
	err := s.create(ctx, s.folder, copier, "-D", s.data(), "--no-sync",
		"-d", s.toPrimary(), "--write-recovery-conf", "--checkpoint=fast")
	if err != nil {
		return err
	}
	// A copy of a primary that has a synchronous standby would wait for that one once it is promoted.
	settings, err := os.OpenFile(filepath.Join(s.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(settings, "synchronous_standby_names = ''\n")
	return errors.Join(err, settings.Close())
}

// toPrimary returns the connection string by which the standby follows the primary.
func (s *Standby) toPrimary() string {
	return fmt.Sprintf("host=%s port=%s user=postgres application_name=%s", s.primary.folder, port, s.name)
}

// untilState returns when the primary says that the standby follows it, and is synchronous if it has to be.
func (s *Standby) untilState(ctx context.Context, synchronous bool) error {
	const failing = `SELECT 1 / count(*) FROM pg_stat_replication WHERE application_name = '%s' AND state = 'streaming'%s`
	and := ""
	if synchronous {
		and = " AND sync_state = 'sync'"
	}
	return s.running.until(func() error { return s.primary.exec(ctx, fmt.Sprintf(failing, s.name, and)) })
}

// Promote makes the standby a primary, and returns when it accepts writes. It does not stop the server it followed:
// kill that before, or there are two primaries.
func (s *Standby) Promote(ctx context.Context) error {
	s.databases.Store(s.primary.databases.Load()) // which it has, too
	if err := s.exec(ctx, "SELECT 1 / pg_promote()::int"); err != nil {
		return fmt.Errorf("promote the standby: %w", err)
	}
	return nil
}

// CatchUp returns when the standby has on disk what the primary had committed before the call.
func (s *Standby) CatchUp(ctx context.Context) error {
	return s.primary.exec(ctx, fmt.Sprintf(`DO $$
		DECLARE committed pg_lsn := pg_current_wal_flush_lsn();
		BEGIN
			WHILE NOT EXISTS (SELECT FROM pg_stat_replication
					WHERE application_name = '%s' AND flush_lsn >= committed) LOOP
				PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
			END LOOP;
		END $$`, s.name))
}

// Disconnect makes the standby catch up and then receive nothing more. If it is promoted then, it loses what the
// primary commits from now on. A commit on the primary of a synchronous standby waits until [Standby.Reconnect].
func (s *Standby) Disconnect(ctx context.Context) error {
	if err := s.CatchUp(ctx); err != nil {
		return err
	}
	if err := s.alter(ctx, "primary_conninfo", ""); err != nil {
		return err
	}
	const failing = `SELECT 1 / (count(*) = 0)::int FROM pg_stat_replication WHERE application_name = '%s'`
	return s.running.until(func() error { return s.primary.exec(ctx, fmt.Sprintf(failing, s.name)) })
}

// Reconnect makes a standby that was disconnected follow the primary again, and returns when it has caught up.
func (s *Standby) Reconnect(ctx context.Context) error {
	if err := s.alter(ctx, "primary_conninfo", s.toPrimary()); err != nil {
		return err
	}
	if err := s.untilState(ctx, false); err != nil {
		return err
	}
	return s.CatchUp(ctx)
}

// alter changes a setting of a server that runs.
func (s *Server) alter(ctx context.Context, setting, value string) error {
	quoted := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	if err := s.exec(ctx, "ALTER SYSTEM SET "+setting+" = "+quoted); err != nil {
		return err
	}
	return s.exec(ctx, "SELECT pg_reload_conf()")
}

// DSN returns the connection string of a database on whichever of them accepts writes, for the
// superuser. A client tries them in this order, each for at most the timeout, which is rounded up to a second.
func DSN(database string, timeout time.Duration, servers ...*Server) string {
	hosts, ports := make([]string, len(servers)), make([]string, len(servers))
	for i, s := range servers {
		hosts[i], ports[i] = s.folder, port
	}
	parameters := url.Values{
		"host": {strings.Join(hosts, ",")}, "port": {strings.Join(ports, ",")}, "user": {"postgres"},
		"target_session_attrs": {"read-write"},
		"connect_timeout":      {fmt.Sprint(int64((timeout + time.Second - 1) / time.Second))},
	}
	return "postgres:///" + url.PathEscape(database) + "?" + parameters.Encode()
}
