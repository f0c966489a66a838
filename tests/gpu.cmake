# Tests on a real GPU, skipped where there is none. add_yoloc_test and the programs are there.
set(HERE ${CMAKE_CURRENT_SOURCE_DIR})
add_yoloc_test(gpu TIMEOUT 900 LABELS gpu COMMAND ${BASH} ${HERE}/gpu.sh $<TARGET_FILE:yoloc> $<TARGET_FILE:test_gpu>
    models/yolov8n.yaml rule)
add_yoloc_test(gpu_answers TIMEOUT 900 LABELS gpu COMMAND ${BASH} ${HERE}/cuda/answers.sh $<TARGET_FILE:yoloc> $<TARGET_FILE:test_answers> gpu
    yolov8-seg yolo11-pose yolo11-obb yolo11-cls yolo26-sem yolov5-anchor-seg)
add_yoloc_test(gpu_expected TIMEOUT 900 LABELS gpu COMMAND ${BASH} ${HERE}/gpu_expected.sh $<TARGET_FILE:yoloc> $<TARGET_FILE:test_expected>)
add_yoloc_test(gpu_cudnn TIMEOUT 900 LABELS gpu COMMAND ${BASH} ${HERE}/gpu_cudnn.sh $<TARGET_FILE:yoloc> $<TARGET_FILE:test_gpu> models/yolov8n.yaml)
set(GPU_MODELS ${BASH} ${HERE}/gpu_models.sh $<TARGET_FILE:yoloc> $<TARGET_FILE:test_gpu> $<TARGET_FILE:test_gpu_runtime>)
add_yoloc_test(gpu_models TIMEOUT 900 LABELS gpu COMMAND ${GPU_MODELS} models/yolo11.yaml models/yolo12.yaml models/yolo26-pose.yaml
    models/yolov8-worldv2.yaml models/yolov8-rtdetr.yaml models/yoloe-v8-seg.yaml models/yolov9t.yaml models/yolox.yaml)
add_yoloc_test(device_models_long TIMEOUT 7200 LABELS long COMMAND ${GPU_MODELS})
add_yoloc_test(gpu_families TIMEOUT 900 LABELS gpu COMMAND $<TARGET_FILE:test_gpufam>)
set_property(TEST gpu APPEND PROPERTY ENVIRONMENT SERVED=$<TARGET_FILE:test_served> RUNTIME=$<TARGET_FILE:test_gpu_runtime>)
# NVRTC where no toolkit is installed: tools/setup.sh put it there.
file(GLOB NVRTC ${CMAKE_SOURCE_DIR}/build/nvrtc/nvidia/*/lib/libnvrtc.so.1[23])
if(NVRTC)
    list(GET NVRTC -1 NVRTC)
    set_property(TEST gpu gpu_answers gpu_cudnn gpu_expected gpu_families gpu_models device_models_long APPEND PROPERTY ENVIRONMENT YOLOC_LIBNVRTC=${NVRTC})
endif()
