package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	filler       = "hello, world\n"
	stepsPerUnit = 500
)

// App is the page and what it costs; it counts what it answers.
type App struct {
	config      Config
	body        []byte
	length      string
	hold        time.Duration
	slots       chan time.Time
	record      *Record
	requests    atomic.Int64
	connections atomic.Int64
}

// firstKey is the key of a connection's context whose value tells whether it had a request.
type firstKey struct{}

func withFirst(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, firstKey{}, new(atomic.Bool))
}

func newApp(config Config) (*App, error) {
	app := &App{config: config, hold: time.Duration(config.HoldMs) * time.Millisecond}
	if config.Record || config.FreezeMs > 0 || config.ErrorEvery > 0 {
		app.record = new(Record)
	}
	text := ""
	if config.Page == "node" {
		text = "node " + config.Node + "\n"
		if len(text) > config.PageBytes {
			return nil, fmt.Errorf("page_bytes = %d: naming the node takes %d", config.PageBytes, len(text))
		}
	}
	text += strings.Repeat(filler, config.PageBytes/len(filler)+1)
	app.body, app.length = []byte(text[:config.PageBytes]), strconv.Itoa(config.PageBytes)
	if config.Slots > 0 {
		app.slots = make(chan time.Time, config.Slots)
		for i := 0; i < config.Slots; i++ {
			app.slots <- time.Time{}
		}
	}
	return app, nil
}

func (app *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.loadbook/config-id":
		fmt.Fprint(w, app.config.ConfigID)
	case "/.loadbook/counters":
		fmt.Fprint(w, app.status())
	default:
		if app.record != nil {
			app.behave(w, r)
			return
		}
		app.wait(r)
		app.serve()
		app.answer(w, http.StatusOK)
	}
}

// wait takes the time that the first request of a connection costs.
func (app *App) wait(r *http.Request) {
	if app.config.FirstMs == 0 {
		return
	}
	if had, ok := r.Context().Value(firstKey{}).(*atomic.Bool); ok && had.CompareAndSwap(false, true) {
		time.Sleep(time.Duration(app.config.FirstMs) * time.Millisecond)
	}
}

// answer writes the page; an error has the same page, since some load generators take other lengths for failures.
func (app *App) answer(w http.ResponseWriter, status int) {
	header := w.Header()
	header["Content-Type"] = []string{"text/html"}
	header["Content-Length"] = []string{app.length}
	w.WriteHeader(status)
	w.Write(app.body)
	app.requests.Add(1)
}

// behave answers as configured and records the request.
func (app *App) behave(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	number, first := app.record.begin(began)
	app.wait(r)
	freeze := first.Add(time.Duration(app.config.FreezeAtMs) * time.Millisecond)
	thaw := freeze.Add(time.Duration(app.config.FreezeMs) * time.Millisecond)
	if !began.Before(freeze) && began.Before(thaw) {
		time.Sleep(time.Until(thaw))
		app.record.froze(freeze, thaw)
	}
	app.serve()
	status := http.StatusOK
	if app.config.ErrorEvery > 0 && number%app.config.ErrorEvery == 0 {
		status = http.StatusInternalServerError
	}
	app.answer(w, status)
	app.record.end(number, began, first, status != http.StatusOK)
}

func (app *App) status() string {
	return fmt.Sprintf("config-id %s\nrequests %d\nconnections %d\n",
		app.config.ConfigID, app.requests.Load(), app.connections.Load())
}

// serve takes its time in one of the slots.
//
// A request that had to wait begins, by plan, when the one before it was to end, so that a sleep that ends a little
// late costs nobody anything: slots/hold requests per second is what the node can do, not about what it can do.
func (app *App) serve() {
	begin := time.Now()
	if app.slots != nil {
		if free := <-app.slots; free.After(begin) {
			begin = free
		}
	}
	end := begin.Add(app.hold)
	if app.hold > 0 {
		time.Sleep(time.Until(end))
	}
	if app.config.Work > 0 {
		spin(app.config.Work)
		end = time.Now()
	}
	if app.slots != nil {
		app.slots <- end
	}
}

// spin spends CPU time in registers only: xorshift64, of which each step needs the one before.
func spin(units int) {
	x := uint64(88172645463325252)
	for i := 0; i < units*stepsPerUnit; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		panic("xorshift never comes to zero")
	}
}

// counted counts the connections that a listener accepts.
type counted struct {
	net.Listener
	app *App
}

func (c *counted) Accept() (net.Conn, error) {
	connection, err := c.Listener.Accept()
	if err == nil {
		c.app.connections.Add(1)
		if c.app.record != nil {
			c.app.record.connected()
		}
	}
	return connection, err
}
