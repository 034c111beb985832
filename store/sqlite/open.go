package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	_ "modernc.org/sqlite" // the driver of Open
)

// A Config opens a store with settings. The zero value is what [Open] and [New] use.
type Config struct {
	// Logger gets what Open and New find that is no error: what a version before kept for somebody in tables that this
	// one neither reads nor drops. Nil means [slog.Default].
	Logger *slog.Logger
}

// Open opens the database file at path and creates or migrates the schema. It creates the file, but not its folder.
// The error names the file and says what to do. Open does not change a file that it cannot use: one that is damaged,
// read-only, of a newer version ([ErrNewerSchema]) or with another events table ([ErrForeignTable]). The context
// applies to the opening only. Close the store when it is no longer needed.
func Open(ctx context.Context, path string) (*Store, error) { return Config{}.Open(ctx, path) }

// Open is [Open] with settings.
func (c Config) Open(ctx context.Context, path string) (*Store, error) {
	file, err := absolutePath(path, checkFile)
	var db *sql.DB
	if err == nil {
		db, err = openFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("open event database: %w", err)
	}
	s := &Store{db: db, file: file, owned: true, lockWait: lockWait}
	err = s.migrate(ctx, c.Logger)
	if err == nil {
		s.returnWriter() // or the next call would open another connection, which reads the schema again
		err = s.useWAL(ctx)
	}
	if err != nil {
		return nil, errors.Join(s.wrapError("open", err), s.Close())
	}
	s.identity = identify(file)
	return s, nil
}

// New returns a store in the host's own SQLite database, and creates or migrates the schema there. The host keeps the
// database: New does not change its journal mode, and Close does not close it. Errors are those of [Open]. The database
// may be in memory, and is then as durable as memory is.
func New(ctx context.Context, db *sql.DB) (*Store, error) { return Config{}.New(ctx, db) }

// New is [New] with settings.
func (c Config) New(ctx context.Context, db *sql.DB) (*Store, error) {
	if db == nil {
		return nil, errors.New("open event database: the *sql.DB is nil")
	}
	s := &Store{db: db, file: "of the host", lockWait: lockWait}
	path, err := s.findFile(ctx)
	if err == nil {
		err = s.migrate(ctx, c.Logger)
	}
	if err != nil {
		return nil, s.wrapError("open", err)
	}
	s.identity = identify(path)
	return s, nil
}

// OpenReadOnly opens the database file at path to read it. It creates, migrates and changes nothing, neither the file
// nor those beside it, so that neither the file nor its folder need be writable. Every call that writes returns
// [ErrReadOnly]. The context applies to the opening only. Close the store when it is no longer needed.
//
// Other programs may begin to write to the file meanwhile, and end: what they have committed is read. The files beside
// it decide how:
//
//   - None: nobody has it open, and it is complete. If somebody writes to it during a call, the call is repeated.
//   - A log (-wal) and its index (-shm): both are read, whether a writer lives or was killed.
//   - A log without its index, as in a backup that left it out, or a rollback journal of a writer that was killed: an
//     error, until a program that writes has opened it once.
//
// A file of a newer version is opened as [Open] does it. In one of an older version the events can be read, and a call
// that needs more returns an error that says so. Open returns [ErrForeignTable], and errors for a file that does not
// exist or has no table of events.
//
// A process that writes to the file has to read it with the store that writes: on Unix it would lose its locks when
// this one is closed.
func OpenReadOnly(ctx context.Context, path string) (*Store, error) {
	file, err := absolutePath(path, checkReadable)
	if err != nil {
		return nil, fmt.Errorf("open event database: %w", err)
	}
	s := &Store{file: file, owned: true, lockWait: lockWait, reader: &reader{}}
	if err := s.readCommitted(ctx, func() error { return s.checkSchema(ctx) }); err != nil {
		return nil, errors.Join(s.wrapError("open", err), s.Close())
	}
	return s, nil
}

func checkReadable(file string) error {
	_, err := statFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no file %s, and none is created: name the database of a program that writes events", file)
	}
	return err
}

func (s *Store) checkSchema(ctx context.Context) error {
	w, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	t := &transaction{store: s, writer: w}
	err = schema().CheckReadable(t)
	if err == nil {
		_, err = schema().Complete(t)
	}
	return err
}
