package storeflow

import "fmt"

// MaxRefused is the largest number of refused rows that one call reports. With more the table is at fault, not a row.
const MaxRefused = 16

// WriteEach writes a batch although the database refuses some of it: a part that is refused is written again in halves,
// down to single elements. It returns what is refused, by run. Another error ends it, and so does one refusal too many.
func WriteEach[E any](
	batch []E, runOf func(E) string, write func([]E) error, isRefusal func(error) bool,
) (refused map[string]error, err error) {
	refused = map[string]error{}
	var divide func(batch []E) error
	divide = func(batch []E) error {
		err := write(batch)
		half := len(batch) / 2
		switch {
		case err == nil || !isRefusal(err):
			return err
		case half > 0:
			if err := divide(batch[:half]); err != nil {
				return err
			}
			return divide(batch[half:])
		}
		runID := runOf(batch[0])
		if refused[runID] = fmt.Errorf("run %s: %w", runID, err); len(refused) > MaxRefused {
			return fmt.Errorf("more than %d rows are refused, such as %w", MaxRefused, refused[runID])
		}
		return nil
	}
	return refused, divide(batch)
}
