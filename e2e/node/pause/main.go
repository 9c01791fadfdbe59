// Pause holds the namespaces of a Pod, and is the container of Pods that only have to run. It ends on SIGTERM,
// by default at once; `pause 20s` takes that long to end. It reaps what others leave to process 1.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	var slow time.Duration
	if len(os.Args) > 1 {
		var err error
		if slow, err = time.ParseDuration(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	for received := range signals {
		if received != syscall.SIGCHLD {
			time.Sleep(slow)
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
}
