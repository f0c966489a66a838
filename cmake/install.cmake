# cmake --install: libraries, public headers, command, models, man page, pkg-config files.

# From the folder of the .pc files up to the prefix, so that they hold for any `cmake --install --prefix`.
set(PC_FOLDER ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PC_PREFIX /prefix/${PC_FOLDER} /prefix)
set(PC_RT_LIBS "-lm -lpthread -ldl")
configure_file(cmake/yolort.pc.in yolort.pc @ONLY)
configure_file(cmake/yoloc.pc.in yoloc.pc @ONLY)
configure_file(cmake/yolosign.pc.in yolosign.pc @ONLY)

install(TARGETS ${SHARED_LIBS} yolort_static yoloc_static yolosign_static yoloc)
install(FILES runtime/yolort.h frontend/yoloc.h sign/yolosign.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/yolort.pc ${PROJECT_BINARY_DIR}/yoloc.pc ${PROJECT_BINARY_DIR}/yolosign.pc DESTINATION ${PC_FOLDER})
install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/yoloc/models)
install(FILES man/yoloc.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE NOTICE README.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
