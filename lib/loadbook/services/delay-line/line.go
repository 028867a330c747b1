package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	smallBuffer = 1 << 10
	largeBuffer = 64 << 10
	inFlight    = 256 // pieces of one connection on their way; its client is held back while there are more
	patience    = 10 * time.Second
	pause       = 10 * time.Millisecond
)

// Line holds back what goes to the target, as netem does on a driver's interface; what comes back passes at once.
type Line struct {
	target                    string
	delay                     time.Duration
	accepted, opened, refused atomic.Int64
}

// piece is what was read at once, and when it is to go on.
type piece struct {
	due  time.Time
	data []byte
}

func (line *Line) serve(listener net.Listener) error {
	told := false
	for {
		client, err := listener.Accept()
		if err != nil {
			// out of open files, most likely: who waits is accepted when another has gone
			if !told {
				fmt.Fprintln(os.Stderr, "delay-line: from here on connections wait for their turn:", err)
				told = true
			}
			time.Sleep(pause)
			continue
		}
		line.accepted.Add(1)
		go line.connect(client.(*net.TCPConn), time.Now())
	}
}

// connect opens the way to the target when the client's SYN would have been there, and closes it when both are done.
func (line *Line) connect(client *net.TCPConn, accepted time.Time) {
	sleepUntil(accepted.Add(line.delay))
	connection, err := net.DialTimeout("tcp", line.target, patience)
	if err != nil {
		line.refused.Add(1)
		fmt.Fprintln(os.Stderr, "delay-line:", err)
		reset(client)
		return
	}
	line.opened.Add(1)
	server := connection.(*net.TCPConn)
	answered := make(chan struct{})
	go func() {
		pass(client, server)
		close(answered)
	}()
	if line.delay == 0 {
		pass(server, client)
	} else {
		line.hold(server, client, time.Now())
	}
	<-answered
	client.Close()
	server.Close()
}

// hold passes on what the client sends, each piece a delay after it came, and never before the connection was open:
// over a real line the client would have sent nothing until then.
func (line *Line) hold(server, client *net.TCPConn, open time.Time) {
	pieces, delivered := make(chan piece, inFlight), make(chan struct{})
	go func() {
		deliver(server, client, pieces)
		close(delivered)
	}()
	buffer := make([]byte, smallBuffer)
	for {
		n, err := client.Read(buffer)
		came := time.Now()
		if came.Before(open) {
			came = open
		}
		due := came.Add(line.delay)
		if n > 0 {
			pieces <- piece{due, append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				reset(server)
			}
			pieces <- piece{due: due}
			break
		}
		buffer = grown(buffer, n)
	}
	<-delivered
}

// deliver writes pieces when they are due; one without data is the client's end.
func deliver(server, client *net.TCPConn, pieces <-chan piece) {
	for next := range pieces {
		sleepUntil(next.due)
		if next.data == nil {
			server.CloseWrite()
			return
		}
		if _, err := server.Write(next.data); err != nil {
			reset(client) // which ends the reading, so that the end comes here
		}
	}
}

// pass copies until one side ends; an end is passed on as an end, a reset as a reset.
//
// io.Copy would splice, which takes two more open files for each direction of a connection.
func pass(to, from *net.TCPConn) {
	buffer := make([]byte, smallBuffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				reset(from)
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				to.CloseWrite()
			} else {
				reset(to)
			}
			return
		}
		buffer = grown(buffer, n)
	}
}

// grown lets a buffer grow with what it is given: ten thousand connections with little to say take little memory.
func grown(buffer []byte, n int) []byte {
	if n == len(buffer) && n < largeBuffer {
		return make([]byte, 4*n)
	}
	return buffer
}

func reset(connection *net.TCPConn) {
	connection.SetLinger(0)
	connection.Close()
}

func sleepUntil(due time.Time) {
	if left := time.Until(due); left > 0 {
		time.Sleep(left)
	}
}
