// Command health-probe asks a server how it is, with the client library that Kubernetes probes with.
//
// Usage: health-probe ADDRESS [SERVICE]. It prints the status and exits with 0 if that is SERVING.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	status, err := check(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(status)
	if status != grpc_health_v1.HealthCheckResponse_SERVING {
		os.Exit(1)
	}
}

func check(arguments []string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
	if len(arguments) == 0 {
		return 0, fmt.Errorf("usage: health-probe ADDRESS [SERVICE]")
	}
	service := ""
	if len(arguments) > 1 {
		service = arguments[1]
	}
	connection, err := grpc.Dial(arguments[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request := &grpc_health_v1.HealthCheckRequest{Service: service}
	response, err := grpc_health_v1.NewHealthClient(connection).Check(limited, request)
	return response.GetStatus(), err
}
