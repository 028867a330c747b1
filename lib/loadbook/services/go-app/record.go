package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"
)

// Record holds the times of the requests since it was last told.
type Record struct {
	lock        sync.Mutex
	first, last time.Time
	held        []time.Duration
	errors      int
	connections int
	freeze      [2]time.Time
}

// Told is a record in one line of the log; times in seconds, those of the freeze since the first request.
type Told struct {
	Requests    int                `json:"requests"`
	Errors      int                `json:"errors"`
	Connections int                `json:"connections"`
	SpanS       float64            `json:"span_s"`
	HeldS       map[string]float64 `json:"held_s"`
	FreezeS     []float64          `json:"freeze_s"`
}

// begin notes a request that has arrived, and returns its number in the record, from 1 on, and the time of the first.
func (record *Record) begin(now time.Time) (int, time.Time) {
	record.lock.Lock()
	defer record.lock.Unlock()
	if record.first.IsZero() {
		record.first = now
	}
	record.held = append(record.held, 0)
	return len(record.held), record.first
}

// end notes the response to a request.
func (record *Record) end(number int, began, first time.Time, failed bool) {
	now := time.Now()
	record.lock.Lock()
	defer record.lock.Unlock()
	if !record.first.Equal(first) { // told in the meantime
		return
	}
	record.held[number-1], record.last = now.Sub(began), now
	if failed {
		record.errors++
	}
}

func (record *Record) froze(begin, end time.Time) {
	record.lock.Lock()
	defer record.lock.Unlock()
	record.freeze = [2]time.Time{begin, end}
}

func (record *Record) connected() {
	record.lock.Lock()
	defer record.lock.Unlock()
	record.connections++
}

// tell writes the record to the log and begins a new one; requests without a response yet are left out.
func (record *Record) tell() {
	record.lock.Lock()
	defer record.lock.Unlock()
	var held []time.Duration
	for _, d := range record.held {
		if d > 0 {
			held = append(held, d)
		}
	}
	sort.Slice(held, func(i, j int) bool { return held[i] < held[j] })
	told := Told{Requests: len(held), Errors: record.errors, Connections: record.connections, HeldS: quantiles(held)}
	if len(held) > 0 {
		told.SpanS = record.last.Sub(record.first).Seconds()
	}
	if !record.freeze[1].IsZero() {
		for _, t := range record.freeze {
			told.FreezeS = append(told.FreezeS, t.Sub(record.first).Seconds())
		}
	}
	if text, err := json.Marshal(told); err == nil {
		fmt.Fprintf(os.Stderr, "record %s\n", text)
	}
	record.first, record.last, record.freeze = time.Time{}, time.Time{}, [2]time.Time{}
	record.held, record.errors, record.connections = nil, 0, 0
}

// quantiles returns mean, nearest-rank percentiles and maximum, s, of sorted times.
func quantiles(held []time.Duration) map[string]float64 {
	if len(held) == 0 {
		return nil
	}
	var sum time.Duration
	for _, d := range held {
		sum += d
	}
	at := func(percent int) float64 { return held[(len(held)*percent+99)/100-1].Seconds() }
	return map[string]float64{
		"mean": sum.Seconds() / float64(len(held)),
		"p50":  at(50), "p90": at(90), "p99": at(99), "max": held[len(held)-1].Seconds(),
	}
}
