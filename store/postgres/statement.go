package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/session"
)

// A statement finds nothing by the search_path, where whoever may create in one of its schemas could put a function or
// an operator that fits better than the server's own, and runs with our rights:
//
//   - The tables are in SCHEMA.
//   - Functions, types, collations and the server's tables are in pg_catalog. Names that the grammar knows, such as
//     varchar, bigint, coalesce, greatest and AT TIME ZONE, mean what is in pg_catalog anyway, and so does unnest of
//     several lists, which cannot be qualified.
//   - An operator is written {=}. All that are written so have one precedence and associate to the left, comparisons as
//     well, so that a sum that is compared needs parentheses. What looks one up by its name cannot be used: BETWEEN,
//     IN, LIKE, NULLIF, USING and IS DISTINCT FROM. What sorts or groups, such as ORDER BY, DISTINCT and GROUP BY, uses
//     the type's own operators.
//   - Short for what is long in pg_catalog are {text}, {time}, {send} (of a time), {now} and {microsecond}.
//
// Rejected: search_path as a parameter of the connection, which a pooler refuses and which the host's own statements in
// its pool would have as well; SET LOCAL, which costs a transaction and two round trips for each statement, and makes
// the server plan a prepared statement each time; functions in our schema, which each have a search_path, because many
// roles may not create any.
var qualified = qualifier("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||", "->", "->>")

func qualifier(operators ...string) *strings.Replacer {
	pairs := []string{
		"{text}", "pg_catalog.text", "{time}", "pg_catalog.timestamptz", "{send}", "pg_catalog.timestamptz_send",
		"{now}", "pg_catalog.statement_timestamp()", "{microsecond}", "interval '1 microsecond'"}
	for _, name := range operators {
		pairs = append(pairs, "{"+name+"}", "OPERATOR(pg_catalog."+name+")")
	}
	return strings.NewReplacer(pairs...)
}

// qualify replaces SCHEMA in a statement by the quoted name of our schema, and {=} by the server's own operator.
func (s *Store) qualify(statement string) string {
	if known, ok := s.qualified.Load(statement); ok {
		return known.(string)
	}
	full := strings.ReplaceAll(qualified.Replace(statement), "SCHEMA.", pgx.Identifier{s.schema}.Sanitize()+".")
	s.qualified.Store(statement, full)
	return full
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// No statement waits for a lock for longer than [session.LockWait], also not for that of a table: SKIP LOCKED skips
// locked rows, and waits for a locked table. Nor is a statement compiled: the planner does not know how few rows a page
// of a list has, and spends most of a second to compile what runs for a thousandth of it. The settings end with the
// transaction, so that the host's own statements in its pool have none of them.
//
// Rejected: a parameter of the connection, which a pooler refuses; a timeout of the context, which breaks the
// connection, and so costs a new one for each call while a table is locked.
var (
	limitLocks = fmt.Sprintf(`SELECT pg_catalog.set_config('lock_timeout', '%d', true)`, session.LockWait.Milliseconds())
	settings   = limitLocks + `, pg_catalog.set_config('jit', 'off', true)`
	// beginLimited is sent without parameters, and so in one message.
	beginLimited = fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %d; SET LOCAL jit = off`,
		session.LockWait.Milliseconds())
)

// A step is a statement of a transaction.
type step struct {
	statement string
	arguments []any
	read      func(pgx.Rows) error // may be nil
}

func (one step) finish(rows pgx.Rows) error {
	var err error
	if one.read != nil {
		err = one.read(rows)
	}
	rows.Close()
	return cmp.Or(err, rows.Err())
}

// reading returns a step that appends the scanned rows. If there are none, all is an empty slice, not nil.
func reading[T any](s *Store, all *[]T, scan pgx.RowToFunc[T], statement string, arguments ...any) step {
	return step{s.qualify(statement), arguments, func(rows pgx.Rows) (err error) {
		*all, err = pgx.AppendRows([]T{}, rows, scan)
		return err
	}}
}

func running(s *Store, statement string, arguments ...any) step {
	return step{statement: s.qualify(statement), arguments: arguments}
}

// counting returns a func that adds how many rows the statement of a step returned or changed.
func counting(sum *int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		rows.Close()
		*sum += rows.CommandTag().RowsAffected()
		return rows.Err()
	}
}

// limited runs statements in one transaction whose waits for locks are limited. It takes one round trip, or three.
func (s *Store) limited(ctx context.Context, conn *pgx.Conn, steps ...step) error {
	if s.inOneTrip(conn, steps) {
		return sendTogether(ctx, conn, append([]step{{statement: s.settings}}, steps...))
	}
	err := s.transaction(ctx, conn, func(t *transaction) error { return t.sendEach(steps) })
	for _, one := range steps {
		preparedBy(conn)[one.statement] = err == nil
	}
	return err
}

// inOneTrip reports whether the steps can be sent together. They cannot if the store's mode is not the pool's, because
// a batch has no mode of its own; nor if one of them is new to the connection, because pgx would first prepare it, in a
// transaction of its own, in which the wait for a locked table has no limit.
func (s *Store) inOneTrip(conn *pgx.Conn, steps []step) bool {
	if s.mode != s.poolMode {
		return false
	}
	prepared := preparedBy(conn)
	isNew := func(one step) bool { return s.mode != pgx.QueryExecModeExec && !prepared[one.statement] }
	return !slices.ContainsFunc(steps, isNew)
}

func preparedBy(conn *pgx.Conn) map[string]bool {
	const key = "watchdog prepared statements"
	prepared, _ := conn.PgConn().CustomData()[key].(map[string]bool)
	if prepared == nil {
		prepared = map[string]bool{}
		conn.PgConn().CustomData()[key] = prepared
	}
	return prepared
}

type transaction struct {
	pgx.Tx
	ctx    context.Context
	store  *Store
	undone bool // it is rolled back, although nothing failed
}

func (s *Store) inTransaction(ctx context.Context, call func(*transaction) error) error {
	return s.onConn(ctx, func(conn *pgx.Conn) error { return s.transaction(ctx, conn, call) })
}

// transaction runs a call in a transaction whose waits for locks are limited.
func (s *Store) transaction(ctx context.Context, conn *pgx.Conn, call func(*transaction) error) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: s.beginQuery})
	if err != nil {
		return err
	}
	defer func() { // also when ctx is done; it does nothing after a commit
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // if it fails, the pool closes the connection
	}()
	t := &transaction{Tx: tx, ctx: ctx, store: s}
	if err := call(t); err != nil || t.undone {
		return err
	}
	return tx.Commit(ctx)
}

// send runs the steps, in one round trip if the store's mode is the pool's.
func (t *transaction) send(steps ...step) error {
	if t.store.mode != t.store.poolMode {
		return t.sendEach(steps)
	}
	return sendTogether(t.ctx, t, steps)
}

type batchSender interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

func sendTogether(ctx context.Context, on batchSender, steps []step) error {
	var batch pgx.Batch
	for _, one := range steps {
		batch.Queue(one.statement, one.arguments...).Query(one.finish)
	}
	return on.SendBatch(ctx, &batch).Close()
}

func (t *transaction) sendEach(steps []step) error {
	for _, one := range steps {
		rows, _ := t.Query(t.ctx, one.statement, append([]any{t.store.mode}, one.arguments...)...) // rows have the error
		if err := one.finish(rows); err != nil {
			return err
		}
	}
	return nil
}

func rowsOf[T any](t *transaction, scan pgx.RowToFunc[T], statement string, arguments ...any) ([]T, error) {
	rows, _ := t.Query(t.ctx, t.store.qualify(statement), t.store.unprepared(arguments)...) // rows have the error
	return pgx.CollectRows(rows, scan)
}

// unprepared puts the mode for a statement without a name in front of its arguments.
func (s *Store) unprepared(arguments []any) []any {
	return append([]any{pgx.QueryExecModeExec}, arguments...)
}

func (s *Store) onConn(ctx context.Context, call func(conn *pgx.Conn) error) error {
	conn, release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return s.explain(ctx, conn, call(conn))
}

// together runs statements in a connection of the pool, as limited does.
func (s *Store) together(ctx context.Context, steps ...step) error {
	return s.onConn(ctx, func(conn *pgx.Conn) error { return s.limited(ctx, conn, steps...) })
}

// query returns the scanned rows. If there are none it returns an empty slice, not nil.
func query[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], text string, arguments ...any) ([]T, error) {
	var all []T
	err := s.together(ctx, reading(s, &all, scan, text, arguments...))
	return all, err
}

func queryRow[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], text string, arguments ...any) (T, error) {
	all, err := query(ctx, s, scan, text, arguments...)
	if len(all) == 0 {
		return *new(T), err
	}
	return all[0], err
}

// A caller runs a call and wraps its error: do or write.
type caller func(ctx context.Context, doing string, call func(context.Context) error) error

func ask[T any](
	ctx context.Context, s *Store, by caller, doing string, scan pgx.RowToFunc[T], statement string, arguments ...any,
) (all []T, err error) {
	return answer(ctx, by, doing, func(ctx context.Context) ([]T, error) {
		return query(ctx, s, scan, statement, arguments...)
	})
}

// answer returns what a call returns, and nothing after an error.
func answer[T any](ctx context.Context, by caller, doing string, call func(context.Context) (T, error)) (T, error) {
	var result T
	err := by(ctx, doing, func(ctx context.Context) (err error) {
		result, err = call(ctx)
		return err
	})
	if err != nil {
		result = *new(T)
	}
	return result, err
}

func (s *Store) exec(ctx context.Context, statement string, arguments ...any) (rows int64, err error) {
	err = s.together(ctx, step{s.qualify(statement), arguments, counting(&rows)})
	return rows, err
}

// An array is the text of an array without its end. An argument of it is one string, whatever it has. Rejected: lists,
// of which pgx makes an object or two for each element.
type array []byte

func (a array) next() array {
	if len(a) == 0 {
		return append(a, '{')
	}
	return append(a, ',')
}

func appendText[T ~string | ~[]byte](a array, text T) array {
	a = append(a.next(), '"')
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' {
			a = append(a, '\\')
		}
		a = append(a, text[i])
	}
	return append(a, '"')
}

func (a array) null() array { return append(a.next(), "NULL"...) }

func (a array) textOrNull(text string) array {
	if text == "" {
		return a.null()
	}
	return appendText(a, text)
}

func (a array) number(n int64) array { return strconv.AppendInt(a.next(), n, 10) }

// time appends a time of the years 1 to 9999, cut off below the microsecond.
func (a array) time(t time.Time) array {
	return t.UTC().AppendFormat(a.next(), `"2006-01-02 15:04:05.000000Z"`)
}

// String is the whole text.
func (a array) String() string {
	if len(a) == 0 {
		return "{}"
	}
	return string(append(a, '}'))
}

// An instant is a time that timestamptz_send returned: 8 bytes, whatever the protocol. If the host's pool has no cache
// of descriptions the server sends values as text, and that of a time depends on DateStyle.
type instant struct {
	Time     time.Time
	Valid    bool // not NULL
	Infinite bool
	Negative bool // before all other times
}

// ScanBytes implements pgtype.BytesScanner.
func (t *instant) ScanBytes(sent []byte) error {
	*t = instant{}
	switch len(sent) {
	case 0:
		return nil
	case 8:
	default:
		return fmt.Errorf("a time has %d bytes, want 8", len(sent))
	}
	since2000 := int64(binary.BigEndian.Uint64(sent)) //nolint:gosec // it is signed
	t.Valid, t.Negative = true, since2000 == math.MinInt64
	t.Infinite = t.Negative || since2000 == math.MaxInt64
	if !t.Infinite {
		t.Time = time.UnixMicro(since2000 + year2000.UnixMicro()).UTC()
	}
	return nil
}

var year2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
