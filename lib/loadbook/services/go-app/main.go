// go-app answers one page over HTTP or FastCGI, at a cost per request that is set.
//
//	go-app run DIR/app.json      listen and answer until told to stop
//	go-app check DIR/app.json    print the configuration as it is understood
//	go-app ask DIR               print what the process that runs in DIR says of itself
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

const controlSocket = "control.sock"

// Config is app.json; lengths in bytes, times in milliseconds.
type Config struct {
	ConfigID  string `json:"config_id"`
	Protocol  string `json:"protocol"`
	Socket    string `json:"socket"`
	Address   string `json:"address"`
	Port      string `json:"port"`
	Node      string `json:"node"`
	Page      string `json:"page"`
	PageBytes int    `json:"page_bytes"`
	Work      int    `json:"work"`
	HoldMs    int    `json:"hold_ms"`
	Slots     int    `json:"slots"`
	// behaviour: the first request of a connection takes FirstMs longer; requests that arrive in the FreezeMs after
	// FreezeAtMs, counted from the first request, wait until its end; every ErrorEvery-th response is 500; 0: never
	FirstMs    int  `json:"first_ms"`
	FreezeAtMs int  `json:"freeze_at_ms"`
	FreezeMs   int  `json:"freeze_ms"`
	ErrorEvery int  `json:"error_every"`
	Record     bool `json:"record"`
	Cpus       int  `json:"cpus"`
}

func main() {
	verbs := map[string]func(string) error{"run": run, "check": check, "ask": ask}
	if len(os.Args) != 3 || verbs[os.Args[1]] == nil {
		fail(errors.New("usage: go-app run|check FILE, go-app ask DIR"))
	}
	if err := verbs[os.Args[1]](os.Args[2]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "go-app:", err)
	os.Exit(1)
}

func read(path string) (Config, *App, error) {
	var config Config
	text, err := os.ReadFile(path)
	if err != nil {
		return config, nil, err
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return config, nil, fmt.Errorf("%s: %w", path, err)
	}
	app, err := newApp(config)
	return config, app, err
}

func check(path string) error {
	config, _, err := read(path)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(config, "", "  ")
	fmt.Println(string(text))
	return err
}

func run(path string) error {
	config, app, err := read(path)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(config.Cpus)
	// sockets by relative names: an absolute path may be longer than the 107 bytes that a socket's name can have
	if err := os.Chdir(filepath.Dir(path)); err != nil {
		return err
	}
	listener, err := listen(config)
	if err != nil {
		return err
	}
	control, err := net.Listen("unix", controlSocket)
	if err != nil {
		return err
	}
	go tell(control, app)
	counted := &counted{listener, app}
	if config.Protocol == "fastcgi" {
		return fcgi.Serve(counted, app)
	}
	return (&http.Server{Handler: app, ConnContext: withFirst}).Serve(counted)
}

func listen(config Config) (net.Listener, error) {
	if config.Socket == "unix" {
		return net.Listen("unix", "app.sock")
	}
	return net.Listen("tcp", net.JoinHostPort(config.Address, config.Port))
}

// tell answers whoever connects to the control socket, which is not counted and not in the way of the load.
func tell(control net.Listener, app *App) {
	for {
		connection, err := control.Accept()
		if err != nil {
			fail(err)
		}
		if app.record != nil {
			app.record.tell()
		}
		io.WriteString(connection, app.status())
		connection.Close()
	}
}

func ask(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	connection, err := net.DialTimeout("unix", controlSocket, 2*time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(2 * time.Second))
	_, err = io.Copy(os.Stdout, connection)
	return err
}
