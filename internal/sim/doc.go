// Package sim simulates a fleet of hosts, sweepers and a database that fail, on fake time and driven by one seed. All
// of it is in its tests: `make sim` runs as many seeds as one wants.
package sim
