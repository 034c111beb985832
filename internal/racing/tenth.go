package racing

// Tenth returns a tenth of n, rounded up, under the race detector, and n without it.
func Tenth(n uint64) uint64 {
	if Enabled {
		return (n + 9) / 10
	}
	return n
}
